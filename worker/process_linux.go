package worker

import "syscall"

// endsWithUs has the process killed when the thread that starts it ends, as it does with this process.
func endsWithUs(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }
