//go:build !unix

package worker

import "os/exec"

func ownGroup(*exec.Cmd) {}

// killGroup ends the process. It fails only if it has ended.
func killGroup(cmd *exec.Cmd) { _ = cmd.Process.Kill() }
