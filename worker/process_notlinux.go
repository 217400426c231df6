//go:build unix && !linux

package worker

import "syscall"

// endsWithUs does nothing: the process sees the end of its stdin.
func endsWithUs(*syscall.SysProcAttr) {}
