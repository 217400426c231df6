package bus

import (
	"context"
	"errors"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"
	"github.com/synadia-io/orbit.go/natscontext"

	"github.com/troupehq/troupe/actor"
)

const (
	connectTimeout = 2 * time.Second
	requestTimeout = 5 * time.Second // of a request whose caller brought no deadline
	publishTimeout = 5 * time.Second // of an acknowledgement
	maxUnacked     = 64 * 1024       // publishes under way, past which Send waits
	pingInterval   = 2 * time.Second // two unanswered pings end a connection that is dead in silence
	reconnectWait  = 100 * time.Millisecond
	reconnectSpray = 20 * time.Millisecond
)

// Config says where to connect. At most one of URL, Context and Server is set; with none it is the
// environment's NATS_URL, else nats://127.0.0.1:4222.
type Config struct {
	URL     string // one server, or several with commas between
	Context string // the name of a saved nats context, with its credentials and JetStream domain
	Server  *Server
	Name    string // shown by the server in its list of connections
	Options []nats.Option
	Log     zerolog.Logger // gets what NATS reports on the side: slow consumers, refused permissions
}

// A Conn is a connection to NATS with JetStream. It reconnects for ever, to any server it knows of.
// While it is down every publish fails at once: see Failure in the package's documentation.
type Conn struct {
	NC *nats.Conn
	JS jetstream.JetStream

	sender *sender
	api    string // the prefix of JetStream's API, "$JS.API." unless there is a domain
}

// Connect connects. The kind is unavailable when no server answers in time; the error names the URL
// without its credentials. It does not ask whether JetStream is ready: [Conn.Ensure] waits for that.
func Connect(ctx context.Context, cfg Config) (*Conn, error) {
	const op = "bus.Connect"
	if moreThanOne(cfg.URL != "", cfg.Context != "", cfg.Server != nil) {
		return nil, refuse(op, actor.SchemaViolation, "of URL, Context and Server one at most may be set")
	}
	if err := ctx.Err(); err != nil {
		return nil, wrap(op, "connect", err)
	}
	nc, settings, where, err := dial(cfg, dialOptions(ctx, cfg))
	if err != nil {
		return nil, refuse(op, actor.Unavailable, "connect to %s: %w", where, withoutURL(err))
	}
	c := &Conn{NC: nc}
	if err := c.openJetStream(settings); err != nil {
		nc.Close()
		return nil, wrap(op, "open JetStream", err)
	}
	if c.sender, err = newSender(nc); err != nil {
		nc.Close()
		return nil, wrap(op, "listen for acknowledgements", err)
	}
	nc.SetDisconnectErrHandler(func(*nats.Conn, error) { c.sender.disconnected() })
	return c, nil
}

func moreThanOne(set ...bool) bool {
	n := 0
	for _, s := range set {
		if s {
			n++
		}
	}
	return n > 1
}

// dialOptions are the house's options, then the caller's.
func dialOptions(ctx context.Context, cfg Config) []nats.Option {
	timeout := connectTimeout
	if until, ok := ctx.Deadline(); ok {
		timeout = min(timeout, time.Until(until))
	}
	opts := []nats.Option{
		nats.Name(cfg.Name),
		nats.Timeout(timeout),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(reconnectWait),
		nats.ReconnectJitter(reconnectSpray, reconnectSpray),
		nats.ReconnectBufSize(-1), // none: a publish while disconnected fails instead
		nats.PingInterval(pingInterval),
		nats.MaxPingsOutstanding(2),
		nats.ErrorHandler(func(_ *nats.Conn, sub *nats.Subscription, err error) {
			event := cfg.Log.Warn().Err(err)
			if sub != nil {
				event = event.Str("subject", sub.Subject)
			}
			event.Msg("nats")
		}),
	}
	return append(opts, cfg.Options...)
}

// dial connects, and says where to in words that may be shown.
func dial(cfg Config, opts []nats.Option) (nc *nats.Conn, s natscontext.Settings, where string, err error) {
	switch {
	case cfg.Server != nil:
		own := append([]nats.Option{nats.InProcessServer(cfg.Server.ns)}, cfg.Server.login.options...)
		nc, err = nats.Connect("", append(own, opts...)...)
		return nc, s, "the embedded server", err
	case cfg.Context != "":
		nc, s, err = natscontext.Connect(cfg.Context, opts...)
		return nc, s, "the nats context " + cfg.Context, err
	}
	at := cfg.URL
	if at == "" {
		at = os.Getenv("NATS_URL")
	}
	if at == "" {
		at = "nats://127.0.0.1:4222"
	}
	nc, err = nats.Connect(at, opts...)
	return nc, s, redact(at), err
}

// openJetStream honours the domain or the prefix of a saved context.
func (c *Conn) openJetStream(s natscontext.Settings) (err error) {
	opts := []jetstream.JetStreamOpt{
		jetstream.WithDefaultTimeout(requestTimeout),
	}
	switch {
	case s.JSDomain != "":
		c.api = "$JS." + s.JSDomain + ".API."
		c.JS, err = jetstream.NewWithDomain(c.NC, s.JSDomain, opts...)
	case s.JSAPIPrefix != "":
		c.api = strings.TrimSuffix(s.JSAPIPrefix, ".") + "."
		c.JS, err = jetstream.NewWithAPIPrefix(c.NC, s.JSAPIPrefix, opts...)
	default:
		c.api = jetstream.DefaultAPIPrefix
		c.JS, err = jetstream.New(c.NC, opts...)
	}
	return err
}

// MaxPayload is the largest message, headers included, that the server takes.
func (c *Conn) MaxPayload() int64 { return c.NC.MaxPayload() }

// Closed reports whether the connection is gone for good: it was closed, here or by the server, and does not
// reconnect.
func (c *Conn) Closed() bool { return c.NC.IsClosed() }

// Close flushes what was published, for at most a second, and closes the connection.
func (c *Conn) Close() {
	if c.NC.IsConnected() {
		// A connection that breaks just now has nothing to flush to: its publishes fail by themselves.
		_ = c.NC.FlushTimeout(time.Second)
	}
	c.NC.Close()
	c.sender.close()
}

// redact takes user, password and token out of a list of URLs.
func redact(list string) string {
	parts := strings.Split(list, ",")
	for i, part := range parts {
		if at := strings.LastIndexByte(part, '@'); at >= 0 {
			scheme, _, ok := strings.Cut(part[:at], "://")
			parts[i] = part[at+1:]
			if ok {
				parts[i] = scheme + "://" + parts[i]
			}
		}
	}
	return strings.Join(parts, ",")
}

// withoutURL takes the address out of an error about it: it may hold a password.
func withoutURL(err error) error {
	var bad *url.Error
	if errors.As(err, &bad) {
		return bad.Err
	}
	return err
}

// within gives ctx the house's deadline when it has none.
func within(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, d)
}
