package bus

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

const (
	tendEvery = time.Second
	room      = 4 << 20 // bytes that have to fit on the disk for its store to be opened again
)

// Serve looks after the server's store until ctx ends. A stream that could not be written, mostly as the disk was
// full, takes no more messages however much room there is later; when there is room again, Serve opens JetStream
// again, which reads from the disk what was acknowledged. Connections stay; consumers that are not durable
// go, as in a restart. A server of a cluster is left alone: the others go on, and it has to be started again.
func (s *Server) Serve(ctx context.Context) error {
	tick := time.NewTicker(tendEvery)
	defer tick.Stop()
	told := false
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		why := s.stuck()
		if why == "" {
			told = false
			continue
		}
		if err := s.probe(); err != nil {
			if !told {
				s.log.Error().Err(err).Str("cause", why).Msg("the store can't be written; waiting for room")
			}
			told = true
			continue
		}
		s.log.Warn().Str("cause", why).Msg("the store can be written again and is opened again")
		if err := s.reopen(); err != nil {
			s.log.Error().Err(err).Msg("the store can't be opened; trying again")
		}
	}
}

// stuck says which stream can't be written, or "".
func (s *Server) stuck() string {
	if s.opts.Cluster.Port != 0 || !s.ns.Running() {
		return ""
	}
	if !s.ns.JetStreamEnabled() {
		return "JetStream is off"
	}
	for _, e := range s.ns.Healthz(&server.HealthzOptions{Details: true}).Errors {
		if strings.Contains(e.Error, "write error") {
			return e.Error
		}
	}
	return ""
}

// probe finds out whether there is room.
func (s *Server) probe() error {
	path := filepath.Join(s.opts.StoreDir, "probe")
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = f.Write(make([]byte, room))
	if err == nil {
		err = f.Sync()
	}
	f.Close()
	os.Remove(path)
	return err
}

// reopen closes JetStream, if it is open, and opens it.
func (s *Server) reopen() error {
	if err := s.ns.ShutdownJetStream(); err != nil {
		return err
	}
	return s.ns.EnableJetStream(&server.JetStreamConfig{
		StoreDir: s.opts.StoreDir, SyncInterval: s.opts.SyncInterval, SyncAlways: s.opts.SyncAlways,
		MaxMemory: s.opts.JetStreamMaxMemory, MaxStore: s.opts.JetStreamMaxStore, Domain: s.opts.JetStreamDomain,
		Strict: !s.opts.NoJetStreamStrict,
	})
}
