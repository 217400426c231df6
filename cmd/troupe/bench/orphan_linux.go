package bench

import (
	"os/exec"
	"syscall"
)

// endsWithUs has the system kill a child whose bench was killed and could not do so itself.
func endsWithUs(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
