package fault

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/test/history"
)

// A disk is what a store stands on, and can be filled.
type disk struct {
	args []string // for the process
	fill func() error
	free func() error
}

// smallDisk is a file system of 64 MiB. Where none can be mounted, nil.
func (s *scene) smallDisk(listen string) *disk {
	s.t.Helper()
	dir := s.t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64m"); err != nil {
		s.t.Logf("no disk can be mounted: %v", err)
		return nil
	}
	s.t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			s.t.Errorf("unmount %s: %v", dir, err)
		}
	})
	ballast := filepath.Join(dir, "ballast")
	return &disk{
		args: []string{"--listen", listen, "--store", filepath.Join(dir, "store")},
		fill: func() error { return fill(ballast) },
		free: func() error { return os.Remove(ballast) },
	}
}

// fill writes a file until nothing more fits.
func fill(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	for size := 1 << 20; size > 0; {
		if _, err = f.Write(make([]byte, size)); err != nil {
			size /= 2
		}
	}
	if !errors.Is(err, syscall.ENOSPC) {
		return fmt.Errorf("the disk was not filled: %w", err)
	}
	return nil
}

// smallStore is a server that may not store more than 24 MB, and that somebody else fills.
func (s *scene) smallStore(listen string) *disk {
	s.t.Helper()
	dir := s.t.TempDir()
	file := filepath.Join(dir, "nats.conf")
	text := fmt.Sprintf("listen: %q\njetstream { store_dir: %q, max_file_store: 24MB }\n", listen, filepath.Join(dir, "store"))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
	return &disk{
		args: []string{"--nats-config", file, "--store", filepath.Join(dir, "lock")},
		fill: func() error {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			_, err := s.Conn.JS.CreateStream(ctx, jetstream.StreamConfig{Name: "ballast", Subjects: []string{"ballast"}})
			for size := 256 << 10; err == nil && size > 64; {
				if _, full := s.Conn.Send("ballast", make([]byte, size)).Wait(ctx); full != nil {
					size /= 2
					if actor.KindOf(full) != actor.Unavailable {
						err = fmt.Errorf("a full store says: %w", full)
					}
				}
			}
			return err
		},
		free: func() error {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			return s.Conn.JS.DeleteStream(ctx, "ballast")
		},
	}
}

// TestFullDisk fills the disk under a server and its host while agents work. They are told to try again, and once
// there is room again all goes on, with nothing lost. Where no disk can be mounted it is the server's own limit.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	s, listen := newScene(t), freePort(t)
	d := s.smallDisk(listen)
	if d == nil {
		d = s.smallStore(listen)
	}
	s.filling(listen, d)
}

// TestFullStore does it to the server's own limit on what it stores.
func TestFullStore(t *testing.T) {
	t.Parallel()
	s, listen := newScene(t), freePort(t)
	s.filling(listen, s.smallStore(listen))
}

func (s *scene) filling(listen string, d *disk) {
	s.t.Helper()
	p := upProcess(s.t, "up", append(d.args, "--max-live", fmt.Sprint(maxLive))...)
	p.start()
	if !p.awaitUp() {
		s.t.FailNow()
	}
	s.connect(listen)
	fills := 0
	s.run(func(ctx context.Context) {
		for pause(ctx, s.between(200*time.Millisecond, 2*time.Second)) {
			if err := d.fill(); err != nil {
				s.t.Error(err)
			}
			fills++
			s.refused()
			if err := d.free(); err != nil {
				s.t.Error(err)
			}
			s.served()
		}
	})
	s.t.Logf("seed %d: it was full %d times", s.seed, fills)
}

// refused waits until a request is answered with an error that asks for another try.
func (s *scene) refused() { s.answers("with nothing more to be stored", actor.Unavailable) }

// served waits until a request is answered as it has to be.
func (s *scene) served() { s.answers("with room again", actor.NotFound) }

// answers makes a small request that has to be stored to be answered, until the answer is an error of a kind: to
// terminate what is not there. Before, there may be answers of the other kind only.
func (s *scene) answers(when string, want actor.Kind) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	data, err := a2e.Encode(&a2e.TerminateReq{Envelope: a2e.Envelope{ID: "probe"}, SubagentID: "sub_00000000"})
	if err != nil {
		s.t.Fatal(err)
	}
	for pause(ctx, retryPause) {
		answer, err := s.Conn.Request(ctx, s.names.A2E(history.AgentID(0)), data)
		if err != nil {
			continue // nobody answers while the host is busy with failures, or there is none
		}
		msg, err := a2e.DecodeAnswer(answer)
		e, ok := msg.(*a2e.Error)
		if err != nil || !ok || e.Code != actor.Unavailable && e.Code != actor.NotFound {
			s.t.Errorf("%s a request is answered with %s", when, answer)
			return
		}
		if e.Code == want {
			return
		}
	}
	s.t.Errorf("%s no request was answered with %s for %v", when, want, patience)
}

const retryPause = 50 * time.Millisecond
