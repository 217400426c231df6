package bus

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/gofrs/flock"

	"github.com/troupehq/troupe/actor"
)

// A storeDir is a store directory that this process holds. Its file lock admits one process at a
// time, and its file member is who that process is, whenever it runs: 16 hex digits, drawn once.
type storeDir struct {
	lock   *flock.Flock
	member string
}

// openStoreDir makes the directory, takes its lock and reads its member id. The kind is conflict
// while another process holds the lock; the error says which.
func openStoreDir(dir string) (*storeDir, error) {
	const op = "bus.StartServer"
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, wrap(op, "make the store directory", err)
	}
	path := filepath.Join(dir, "lock")
	lock := flock.New(path)
	held, err := lock.TryLock()
	if err != nil {
		return nil, wrap(op, "lock "+path, err)
	}
	if !held {
		return nil, refuse(op, actor.Conflict, "the store directory %s is in use by %s", dir, holder(path))
	}
	member, err := openMember(filepath.Join(dir, "member"))
	if err == nil {
		err = os.WriteFile(path, []byte(self(member)), 0o600)
	}
	if err != nil {
		return nil, wrap(op, "open the store directory", errors.Join(err, lock.Unlock()))
	}
	return &storeDir{lock: lock, member: member}, nil
}

// close gives the directory to the next process.
func (d *storeDir) close() error { return d.lock.Unlock() }

// self is what the holder of a lock writes into it.
func self(member string) string {
	host, err := os.Hostname()
	if err != nil {
		host = "an unnamed host"
	}
	return fmt.Sprintf("process %d on %s, member %s", os.Getpid(), host, member)
}

// holder reads what the holder has written, which it may be about to do.
func holder(path string) string {
	text, err := os.ReadFile(path)
	if err != nil || len(text) == 0 {
		return "another process"
	}
	return string(text)
}

// openMember reads the member id, or draws one. The caller holds the lock.
func openMember(path string) (string, error) {
	text, err := os.ReadFile(path)
	if member := strings.TrimSpace(string(text)); err == nil && member != "" {
		return member, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	var id [8]byte
	if _, err := rand.Read(id[:]); err != nil {
		return "", err
	}
	member := hex.EncodeToString(id[:])
	half := path + ".new"
	if err := os.WriteFile(half, []byte(member+"\n"), 0o600); err != nil {
		return "", err
	}
	return member, os.Rename(half, path)
}
