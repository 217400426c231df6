//go:build !linux

package bench

import "os/exec"

// endsWithUs does nothing here: a "troupe up" whose bench was killed stays.
func endsWithUs(*exec.Cmd) {}
