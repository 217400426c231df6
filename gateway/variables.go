package gateway

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/agent"
	"github.com/troupehq/troupe/host"
)

// A waiting is a creation that a request is about.
type waiting struct {
	parent  actor.ID
	request string
}

// variables serves what a creation waits for.
func (g *Gateway) variables(w http.ResponseWriter, r *http.Request) {
	of := waiting{agent.IDOf(r.PathValue("parent")), r.PathValue("request")}
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		g.required(w, r, of)
	case http.MethodPost:
		g.provide(w, r, of)
	default:
		notAllowed(w, r, "GET, HEAD, POST")
	}
}

// required answers which variables are required, and which are missing.
func (g *Gateway) required(w http.ResponseWriter, r *http.Request, of waiting) {
	ctx, cancel := context.WithTimeout(r.Context(), bootTime)
	defer cancel()
	v, err := g.lookUp(ctx, of)
	if err != nil {
		g.fail(w, of, err)
		return
	}
	answer(w, http.StatusOK, struct {
		Required []string `json:"required"`
		Missing  []string `json:"missing"`
		Status   string   `json:"status"`
	}{append([]string{}, v.Required...), append([]string{}, v.Missing...), "open"}) // none is [], not null
}

// lookUp tells nobody whether it is the thread or the request that is not there.
func (g *Gateway) lookUp(ctx context.Context, of waiting) (v host.Variables, err error) {
	if of.parent != "" {
		v, err = g.Booter.Variables(ctx, of.parent, of.request)
	}
	if of.parent == "" || errors.Is(err, actor.NotFound) {
		return v, because(actor.NotFound, "", "there is no such thread, or no such request of it")
	}
	return v, err
}

// provide takes the values and boots the child. It is carried out although the sender hangs up.
func (g *Gateway) provide(w http.ResponseWriter, r *http.Request, of waiting) {
	values, status, err := readValues(w, r)
	if err != nil {
		refuse(w, status, err, nil)
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), bootTime)
	defer cancel()
	b, err := g.boot(ctx, of, values)
	if err != nil {
		g.fail(w, of, err)
		return
	}
	g.Log.Info().Str("parent", string(of.parent)).Str("child", string(b.ID)).Msg("a child was given its variables, and is booted")
	answer(w, http.StatusCreated, struct {
		Reference    string   `json:"reference"`
		ID           actor.ID `json:"subagent_id"`
		Relationship string   `json:"relationship"`
	}{b.Reference, b.ID, b.Relationship})
}

// boot refuses before anything is stored what can be told from the names.
func (g *Gateway) boot(ctx context.Context, of waiting, values map[string]string) (host.Booted, error) {
	v, err := g.lookUp(ctx, of)
	if err != nil {
		return host.Booted{}, err
	}
	var lacking []string
	asked := 0
	for _, name := range v.Missing {
		if _, there := values[name]; there {
			asked++
		} else {
			lacking = append(lacking, name)
		}
	}
	if n := len(values) - asked; n > 0 {
		return host.Booted{}, &actor.Error{Kind: actor.SchemaViolation, Field: "values", Err: &unasked{n, v.Missing}}
	}
	if lacking != nil {
		return host.Booted{}, &actor.Error{Kind: actor.EnvRequired, Field: "values", Err: &host.MissingVariables{Missing: lacking}}
	}
	b, err := g.Booter.Boot(ctx, of.parent, of.request, values)
	return b, concealed(err, values)
}

// An unasked tells of names that nobody asked for. It does not tell them: they may be values.
type unasked struct {
	n       int
	missing []string
}

// Error says what may be given.
func (u *unasked) Error() string {
	if u.n == 1 {
		return "one name is not among those that are missing: " + strings.Join(u.missing, ", ")
	}
	return "names are not among those that are missing: " + strings.Join(u.missing, ", ")
}

// fail answers with what the runtime refused.
func (g *Gateway) fail(w http.ResponseWriter, of waiting, err error) {
	kind := actor.KindOf(err)
	status := statusOf(kind)
	if status >= http.StatusInternalServerError {
		g.Log.Error().Err(err).Str("parent", string(of.parent)).Str("code", string(kind)).Msg("variables over HTTP")
	}
	var missing []string
	var m *host.MissingVariables
	var u *unasked
	switch {
	case errors.As(err, &m):
		missing = m.Missing
	case errors.As(err, &u):
		missing = u.missing
	}
	refuse(w, status, err, missing)
}
