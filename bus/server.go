package bus

import (
	"errors"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/rs/zerolog"

	"github.com/troupehq/troupe/actor"
)

const (
	defaultSync  = 100 * time.Millisecond
	startTimeout = 10 * time.Second
)

// ServerConfig says how the embedded server runs.
type ServerConfig struct {
	// Store is the directory of everything durable. It is required, is made when it does not exist,
	// and belongs to one process at a time.
	Store string
	// Listen is "host:port", or ":port" for all interfaces; port 0 or -1 is any free one. Empty means
	// that only this process can connect; with a ConfigFile it means nats-server's own default.
	Listen string
	// Sync is how often writes are forced to the disk: a duration, or "always" for before each
	// acknowledgement. Empty is "100ms": a crash of the process loses nothing, a power cut at most
	// that.
	Sync string
	// ConfigFile is a standard nats-server configuration, for clusters, TLS, accounts or leaf nodes.
	// What it says wins over the fields here. JetStream is on even if the file leaves it out. To users
	// that it lists a user for [Connect] with Server is added, in the one account besides the system's.
	ConfigFile string
	// Name is the server's name. Empty is the member id.
	Name string
	// Log gets the server's own messages. The zero Logger drops them.
	Log zerolog.Logger
}

// A Server is a NATS server in this process, with JetStream.
type Server struct {
	ns    *server.Server
	opts  *server.Options
	login login
	dir   *storeDir
	log   zerolog.Logger
	close func() error
}

// StartServer starts the embedded server. When it returns, the server accepts connections and its
// JetStream is up; on a cluster it may still lack a leader, which [Conn.Ensure] waits for.
// The kind is conflict when another process holds the store directory, schema_violation when the
// configuration is wrong or leaves this process no way to connect, and unavailable when the server can't start, say as the port is taken.
func StartServer(cfg ServerConfig) (*Server, error) {
	const op = "bus.StartServer"
	if cfg.Store == "" {
		return nil, &actor.Error{Op: op, Kind: actor.SchemaViolation, Field: "store", Err: errors.New("a store directory is required")}
	}
	dir, err := openStoreDir(cfg.Store)
	if err != nil {
		return nil, err
	}
	opts, err := options(cfg, dir.member)
	if err != nil {
		return nil, errors.Join(err, dir.close())
	}
	ns, own, err := start(opts, cfg.Log)
	if err != nil {
		return nil, errors.Join(err, dir.close())
	}
	s := &Server{ns: ns, opts: opts, login: own, dir: dir, log: cfg.Log}
	s.close = sync.OnceValue(func() error {
		stop(ns)
		return wrap("bus.Server.Close", "unlock the store directory", dir.close())
	})
	return s, nil
}

// start runs a server whose store directory is ours, and tells how to connect to it.
func start(opts *server.Options, log zerolog.Logger) (*server.Server, login, error) {
	const op = "bus.StartServer"
	own, err := logIn(opts)
	if err != nil {
		return nil, login{}, err
	}
	ns, err := server.NewServer(opts)
	if err != nil {
		return nil, login{}, refuse(op, actor.SchemaViolation, "configure the server: %w", err)
	}
	if err := run(ns, opts, &serverLog{log: log}); err != nil {
		stop(ns)
		return nil, login{}, err
	}
	if account, err := ns.LookupAccount(own.account); own.account != "" && (err != nil || !account.JetStreamEnabled()) {
		stop(ns)
		return nil, login{}, refuse(op, actor.SchemaViolation, "JetStream is not enabled for the account %s: add \"jetstream: enabled\" to it", own.account)
	}
	return ns, own, nil
}

// run starts the server and waits until it is up.
func run(ns *server.Server, opts *server.Options, log *serverLog) error {
	const op = "bus.StartServer"
	if opts.LogFile != "" || opts.Syslog || opts.RemoteSyslog != "" {
		ns.ConfigureLogger()
	} else {
		ns.SetLoggerV2(log, opts.Debug, opts.Trace, opts.TraceVerbose)
	}
	ns.Start()
	if err := log.fatal(); err != nil {
		return refuse(op, actor.Unavailable, "start the server: %w", err)
	}
	if !ns.ReadyForConnections(startTimeout) || !ns.JetStreamEnabled() {
		return refuse(op, actor.Unavailable, "the server was not ready within %v", startTimeout)
	}
	return nil
}

func stop(ns *server.Server) {
	ns.Shutdown()
	ns.WaitForShutdown()
}

// options merges the fields of cfg into what its ConfigFile says.
func options(cfg ServerConfig, member string) (*server.Options, error) {
	const op = "bus.StartServer"
	opts := &server.Options{}
	if cfg.ConfigFile != "" {
		var err error
		if opts, err = server.ProcessConfigFile(cfg.ConfigFile); err != nil {
			return nil, refuse(op, actor.SchemaViolation, "read %s: %w", cfg.ConfigFile, err)
		}
	}
	opts.NoSigs = true
	opts.JetStream = true
	if opts.ServerName == "" {
		opts.ServerName = member
		if cfg.Name != "" {
			opts.ServerName = cfg.Name
		}
	}
	if opts.StoreDir == "" {
		opts.StoreDir = cfg.Store
	}
	if opts.JetStreamLimits.DefaultMaxConsumers == 0 {
		opts.JetStreamLimits.DefaultMaxConsumers = -1
	}
	if opts.SyncInterval == 0 && !opts.SyncAlways {
		if err := setSync(opts, cfg.Sync); err != nil {
			return nil, err
		}
	}
	if opts.Host == "" && opts.Port == 0 {
		if err := setListen(opts, cfg); err != nil {
			return nil, err
		}
	}
	return opts, nil
}

func setSync(opts *server.Options, sync string) error {
	switch sync {
	case "":
		opts.SyncInterval = defaultSync
	case "always":
		opts.SyncAlways = true
	default:
		d, err := time.ParseDuration(sync)
		if err == nil && d <= 0 {
			err = errors.New(`not above zero; "always" syncs each write`)
		}
		if err != nil {
			return &actor.Error{Op: "bus.StartServer", Kind: actor.SchemaViolation, Field: "sync", Err: err}
		}
		opts.SyncInterval = d
	}
	return nil
}

func setListen(opts *server.Options, cfg ServerConfig) error {
	if cfg.Listen == "" {
		opts.DontListen = cfg.ConfigFile == ""
		return nil
	}
	host, port, err := net.SplitHostPort(cfg.Listen)
	if err == nil {
		opts.Port, err = strconv.Atoi(port)
	}
	if err != nil {
		return &actor.Error{Op: "bus.StartServer", Kind: actor.SchemaViolation, Field: "listen", Err: err}
	}
	if opts.Port == 0 {
		opts.Port = server.RANDOM_PORT
	}
	opts.Host = host
	return nil
}

// URL is where other processes connect to, or "" when they can't.
func (s *Server) URL() string {
	if s.ns.Addr() == nil {
		return ""
	}
	return s.ns.ClientURL()
}

// Member is the member id of whoever runs on this store directory: the same after each restart.
func (s *Server) Member() string { return s.dir.member }

// Name is the server's name, by which a cluster's leaders are told.
func (s *Server) Name() string { return s.ns.Name() }

// Close stops the server, waits until it has stopped, and releases the store directory. Close the
// connections to it first: theirs is to flush. Closing again does nothing.
func (s *Server) Close() error { return s.close() }
