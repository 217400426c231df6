// Package gateway serves a host over HTTP: the variables that creations wait for, for people and programs that
// have the values and no NATS connection (S1 §5.2), its health and its metrics.
//
//	GET  /threads/{parent}/variables/{request}   the names that are required, and those that are missing
//	POST /threads/{parent}/variables/{request}   gives the values, and boots the child
//	GET  /healthz                                200 while the host is ready, else 503
//	GET  /metrics                                for Prometheus
//
// # Use
//
//	token, err := gateway.ParseToken(text)                   // or "": loopback only
//	l, err := gateway.Listen(ctx, "127.0.0.1:8080", token)
//	g, err := gateway.New(gateway.Config{Booter: h, Ready: ready, Token: token})
//	err = g.Serve(ctx, l)                                    // until ctx ends
//
// # Who may ask
//
// On a loopback address without a token anyone on the machine may. A page in a browser may not: a request for
// another host name than a loopback one is refused, so that a name made to point here gives nothing away, and so is
// a POST that another site has caused. [Listen] refuses any other address without a token. With one, every
// request but /healthz has to bear it. The token and the values travel as they are: what is not loopback needs
// something in front that speaks TLS.
//
// # Secrets
//
// Values are taken and never given: not in an answer, not in an error, not in the log. What a request calls its
// values is not told either unless it is one of the names that are missing, since a name may be a value in the
// wrong place.
//
// # Failure
//
// Every answer that is not 2xx is JSON like the error message of A2E: code, message, detail, retryable. The code
// is the Kind of the error. The errors of this package's functions are *[actor.Error].
//
// A POST is carried out although its sender hangs up, so that no child is booted by half; asking again tells what
// became of it. A Serve that is told to stop finishes what it has begun, within 20 seconds.
package gateway
