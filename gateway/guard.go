package gateway

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"path"
	"runtime/debug"
	"strings"

	"github.com/troupehq/troupe/actor"
)

// guarded lets through who may ask, and lets nothing out that a browser could be tricked with.
func (g *Gateway) guarded(next http.Handler) http.Handler {
	foreign := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer g.recovered(w, r)
		harden(w.Header())
		switch {
		case g.Token == "" && !localName(r.Host):
			refuse(w, http.StatusForbidden, because(actor.Unauthorized, "Host", "without a token only loopback names are served"), nil)
		case foreign.Check(r) != nil:
			refuse(w, http.StatusForbidden, because(actor.Unauthorized, "Origin", "a page of another site has caused this request"), nil)
		case g.Token != "" && r.URL.Path != healthPath && !bears(r, g.Token):
			w.Header().Set("WWW-Authenticate", `Bearer realm="troupe"`)
			refuse(w, http.StatusUnauthorized, because(actor.Unauthorized, "Authorization", "it has to be Bearer and the token"), nil)
		case path.Clean(r.URL.Path) != r.URL.Path: // ServeMux would answer with a page
			nothingHere(w, r)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

func harden(h http.Header) {
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'; sandbox")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
}

// localName reports whether a Host header names this machine. Another name that points here was made to, for a
// page in a browser to read what is meant for this machine.
func localName(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}

// bears compares in a time that tells nothing of the token.
func bears(r *http.Request, token string) bool {
	scheme, given, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	a, b := sha256.Sum256([]byte(strings.TrimSpace(given))), sha256.Sum256([]byte(token))
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1 && strings.EqualFold(scheme, "Bearer")
}

// recovered answers for a handler that panicked. What it panicked with is not logged: it may hold a value.
func (g *Gateway) recovered(w http.ResponseWriter, r *http.Request) {
	p := recover()
	if p == nil {
		return
	}
	if p == http.ErrAbortHandler {
		panic(p)
	}
	g.Log.Error().Str("method", r.Method).Str("panic", fmt.Sprintf("%T", p)).Bytes("stack", debug.Stack()).Msg("HTTP")
	refuse(w, http.StatusInternalServerError, because(actor.RuntimeError, "", "the request broke its handler"), nil)
}
