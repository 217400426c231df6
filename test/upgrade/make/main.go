// Make writes a store as this version of the program does, for later versions to open. See package upgrade.
package main

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/rs/zerolog"

	"github.com/troupehq/troupe/bus"
	"github.com/troupehq/troupe/host"
	"github.com/troupehq/troupe/store"
	"github.com/troupehq/troupe/subjects"
	"github.com/troupehq/troupe/test/upgrade"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: make FILE.tar.gz")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(file string) error {
	dir, err := os.MkdirTemp("", "troupe-store-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := write(ctx, dir); err != nil {
		return err
	}
	return pack(file, dir)
}

// write runs a server and a host in dir until the store is filled.
func write(ctx context.Context, dir string) (err error) {
	srv, err := bus.StartServer(bus.ServerConfig{Store: dir, Sync: "always"})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, srv.Close()) }()
	conn, err := bus.Connect(ctx, bus.Config{Server: srv})
	if err != nil {
		return err
	}
	defer conn.Close()
	names, err := subjects.New("")
	if err != nil {
		return err
	}
	if _, err := conn.Ensure(ctx, bus.Layout{Names: names, Partitions: 2}); err != nil {
		return err
	}
	st, err := store.New(store.Config{NC: conn.NC, JS: conn.JS, Sender: conn, Names: names})
	if err != nil {
		return err
	}
	h, err := host.New(host.Config{Conn: conn, Store: st, Names: names, Partitions: 2, Member: srv.Member(), Version: "0.1.0", Log: zerolog.New(os.Stderr)})
	if err != nil {
		return err
	}
	serving, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- h.Serve(serving) }()
	select {
	case <-h.Ready():
		err = upgrade.Fill(ctx, conn, st, names)
	case err := <-ended:
		return err
	}
	stop()
	return errors.Join(err, <-ended)
}

// pack writes what is in dir, but for its lock.
func pack(file, dir string) error {
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	defer out.Close()
	zip, err := gzip.NewWriterLevel(out, gzip.BestCompression)
	if err != nil {
		return err
	}
	archive := tar.NewWriter(zip)
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == "lock" {
			return err
		}
		return add(archive, dir, path)
	})
	return errors.Join(err, archive.Close(), zip.Close(), out.Close())
}

func add(archive *tar.Writer, dir, path string) error {
	name, err := filepath.Rel(dir, path)
	if err != nil {
		return err
	}
	data, err := os.Open(path)
	if err != nil {
		return err
	}
	defer data.Close()
	info, err := data.Stat()
	if err != nil {
		return err
	}
	if err := archive.WriteHeader(&tar.Header{Name: filepath.ToSlash(name), Mode: 0o600, Size: info.Size(), ModTime: info.ModTime()}); err != nil {
		return err
	}
	_, err = io.Copy(archive, data)
	return err
}
