//go:build unix

package worker

import (
	"os/exec"
	"syscall"
)

// ownGroup has the process begin a group, so that what it starts can be ended with it.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	endsWithUs(cmd.SysProcAttr)
}

// killGroup ends the process and what it has started. It fails only if they have ended.
func killGroup(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
