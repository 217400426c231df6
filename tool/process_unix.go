//go:build unix

package tool

import (
	"os/exec"
	"syscall"
)

// ownGroup makes a command the head of a process group: an interrupt from a terminal goes past it, since its end
// is ours to bring about.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// endGroup ends what a command that has ended left behind.
func endGroup(cmd *exec.Cmd) {
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // mostly there is nobody
	}
}
