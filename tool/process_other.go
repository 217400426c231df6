//go:build !unix

package tool

import "os/exec"

// Process groups are known to Unix only. Elsewhere a command's own children are its own matter.

func ownGroup(*exec.Cmd) {}

func endGroup(*exec.Cmd) {}
