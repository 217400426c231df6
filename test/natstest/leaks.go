package natstest

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

// Main runs a package's tests, then cleanup, and fails if a goroutine of ours is left behind.
func Main(m *testing.M, cleanup ...func() error) {
	code := m.Run()
	for _, f := range cleanup {
		if err := f(); err != nil && code == 0 {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	if leaks := leaked(); leaks != "" && code == 0 {
		fmt.Fprintln(os.Stderr, "goroutines are left behind:\n"+leaks)
		code = 1
	}
	os.Exit(code)
}

// leaked gives the stacks of goroutines that are left behind. Those of a server that was stopped do not count
// where nothing of ours and nothing of a client is in them: several of nats-server's end only a while later.
func leaked() string {
	err := goleak.Find()
	if err == nil {
		return ""
	}
	const mark = "Goroutine "
	var ours []string
	for _, stack := range strings.Split(err.Error(), mark)[1:] {
		server := strings.Contains(stack, "github.com/nats-io/nats-server/v2/")
		client := strings.Contains(stack, "github.com/nats-io/nats%2ego") || strings.Contains(stack, "github.com/nats-io/nats.go@")
		if server && !client && !strings.Contains(stack, "github.com/troupehq/troupe/") {
			continue
		}
		ours = append(ours, mark+stack)
	}
	return strings.Join(ours, "\n")
}
