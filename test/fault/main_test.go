package fault

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/troupehq/troupe/bus"
)

// serverStore and serverListen make a process of this test binary a server without a host.
const (
	serverStore  = "TROUPE_FAULT_STORE"
	serverListen = "TROUPE_FAULT_LISTEN"
)

var binDir string // of the binary under test; removed at the end

func TestMain(m *testing.M) {
	if dir := os.Getenv(serverStore); dir != "" {
		os.Exit(serveAlone(dir, os.Getenv(serverListen)))
	}
	var err error
	if binDir, err = os.MkdirTemp("", "troupe-fault-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	if err := os.RemoveAll(binDir); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}

// serveAlone runs a server until it is killed.
func serveAlone(dir, listen string) int {
	server, err := bus.StartServer(bus.ServerConfig{Store: dir, Listen: listen, Sync: "10m"})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println(upLine, server.URL())
	select {}
}

// binary builds the command once for all tests, with the race detector if the tests have it.
var binary = sync.OnceValues(func() (string, error) {
	file := filepath.Join(binDir, "troupe")
	args := []string{"build", "-o", file}
	if raceEnabled {
		args = append(args, "-race")
	}
	out, err := exec.Command("go", append(args, "github.com/troupehq/troupe/cmd/troupe")...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build the command: %w\n%s", err, out)
	}
	return file, nil
})

// duration is how long processes are killed.
func duration(t *testing.T) time.Duration {
	t.Helper()
	if text := os.Getenv("TROUPE_FAULT"); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil {
			t.Fatalf("TROUPE_FAULT: %v", err)
		}
		return d
	}
	if testing.Short() {
		return 5 * time.Second
	}
	return 10 * time.Second
}

// seed is what all random choices of a test come from.
func seed(t *testing.T) uint64 {
	t.Helper()
	text := os.Getenv("TROUPE_SEED")
	if text == "" {
		return rand.Uint64N(1_000_000)
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("TROUPE_SEED: %v", err)
	}
	return n
}
