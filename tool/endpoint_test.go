package tool_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/micro"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/test/natstest"
	"github.com/troupehq/troupe/tool"
)

// A real micro service, called by what Conn gives.
func TestEndpoint(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	serving, asking := natstest.Conn(t, srv), natstest.Conn(t, srv)
	service, err := micro.AddService(serving.NC, micro.Config{Name: "weather", Version: "1.0.0"})
	if err != nil {
		t.Fatal(err)
	}
	serve := func(name string, handle func(micro.Request)) tool.Endpoint {
		if err := service.AddEndpoint(name, micro.HandlerFunc(handle), micro.WithEndpointSubject("weather."+name)); err != nil {
			t.Fatal(err)
		}
		return tool.Endpoint{Name: "weather_" + name, Subject: "weather." + name, Timeout: 10 * time.Second,
			Schema: json.RawMessage(`{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}`)}
	}
	respond := func(data string) func(micro.Request) {
		return func(r micro.Request) {
			if err := r.Respond([]byte(data)); err != nil {
				t.Error(err)
			}
		}
	}
	cfg := tool.Config{Requester: asking, Endpoints: []tool.Endpoint{
		serve("now", respond(`{"sun": true}`)), serve("text", respond("it is\nsunny")), serve("none", respond("")), serve("bytes", respond("\xff\xfe")),
		serve("echo", func(r micro.Request) {
			h := r.Headers()
			respond(strings.Join([]string{h.Get("Troupe-Call"), h.Get("Troupe-Thread"), h.Get("Troupe-Session"), string(r.Data())}, " "))(r)
		}),
		serve("refuse", func(r micro.Request) {
			if err := r.Error("404", "no such city", []byte(`{"near":["Ghent"]}`)); err != nil {
				t.Error(err)
			}
		}),
		serve("silent", func(micro.Request) {}),
		{Name: "nobody", Subject: "nobody.there"},
	}}
	cfg.Endpoints[6].Timeout = 50 * time.Millisecond
	if err := serving.NC.Flush(); err != nil {
		t.Fatal(err)
	}
	r := registry(t, cfg)
	const ghent = `{"city":"Ghent"}`
	gives(t, call(t, r, "weather_now", ghent), `{"sun": true}`)
	gives(t, call(t, r, "weather_text", ghent), `"it is\nsunny"`)
	gives(t, call(t, r, "weather_none", ghent), `null`)
	gives(t, call(t, r, "weather_echo", ghent), `"call-3 sub_1 2 {\"city\":\"Ghent\"}"`)
	refuses(t, call(t, r, "weather_bytes", ghent), actor.RuntimeError, "2 bytes")
	refuses(t, call(t, r, "weather_echo", `{}`), actor.SchemaViolation, "city")
	refuses(t, call(t, r, "weather_silent", ghent), actor.Timeout, "50ms")
	refuses(t, call(t, r, "nobody", ``), actor.Unavailable)
	got := call(t, r, "weather_refuse", ghent)
	if want := `{"code":"404","message":"no such city","detail":{"near":["Ghent"]}}`; !got.IsError || string(got.Content) != want {
		t.Errorf("a refusal gives %s (an error: %v), want %s", got.Content, got.IsError, want)
	}
	if _, err := r.Describe(natstest.Context(t), []string{"weather_*", "nobody"}); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(natstest.Context(t))
	cancel()
	_, err = r.Call(ctx, "weather_now", tool.Call{Arguments: json.RawMessage(ghent)})
	wantKind(t, "a call that was cancelled", err, actor.RuntimeError, "canceled")
}

// A call's id may hold anything; a header may not.
func TestEndpointHeadersAreSafe(t *testing.T) {
	t.Parallel()
	var seen map[string][]string
	r := registry(t, tool.Config{Requester: recorder{&seen}, Endpoints: []tool.Endpoint{{Name: "a", Subject: "a"}}})
	if _, err := r.Call(natstest.Context(t), "a", tool.Call{ID: "x\r\nEvil: 1", Thread: "風"}); err != nil {
		t.Fatal(err)
	}
	for name, values := range seen {
		if strings.ContainsAny(values[0], "\r\n") {
			t.Errorf("the header %s is %q", name, values[0])
		}
	}
	if len(seen) != 3 {
		t.Errorf("the headers are %v, want three", seen)
	}
}

type recorder struct{ header *map[string][]string }

func (r recorder) RequestWith(_ context.Context, _ string, header map[string][]string, _ []byte) ([]byte, error) {
	*r.header = header
	return nil, nil
}
