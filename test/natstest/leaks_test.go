package natstest

import (
	"strings"
	"testing"
)

// The test of the test: a connection that is still open is seen, and its server's own goroutines are not.
func TestLeakedSeesOurs(t *testing.T) {
	conn := InProcess(t, Start(t))
	if got := leaked(); !strings.Contains(got, "troupe/bus") {
		t.Errorf("an open connection is not seen among what is left behind: %q", got)
	}
	conn.Close()
}
