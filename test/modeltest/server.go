// Package modeltest plays the provider of a model, for tests: a server that gives one reply after another and
// keeps what it was asked.
package modeltest

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/model"
	"github.com/troupehq/troupe/model/provider"
)

// A Reply answers one request.
type Reply func(w http.ResponseWriter, r *http.Request)

// A Request is what the server was asked.
type Request struct {
	Path   string
	Header http.Header
	Body   []byte
}

// A Server gives its replies in order. A request for which there is none is an error of the test.
type Server struct {
	URL string

	transport *http.Transport
	mu        sync.Mutex
	replies   []Reply
	requests  []Request
}

// Start starts a server, which ends with the test.
func Start(t testing.TB, replies ...Reply) *Server {
	t.Helper()
	s := &Server{replies: replies, transport: &http.Transport{}}
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the client is gone
		}
		reply := s.next(Request{r.URL.Path, r.Header.Clone(), body})
		if reply == nil {
			t.Errorf("the server has no reply left, but was asked %s %s", r.URL.Path, body)
			w.WriteHeader(http.StatusTeapot)
			return
		}
		reply(w, r)
	}))
	s.URL = h.URL
	t.Cleanup(func() {
		s.transport.CloseIdleConnections()
		h.CloseClientConnections()
		h.Close()
	})
	return s
}

func (s *Server) next(r Request) Reply {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, r)
	if len(s.requests) > len(s.replies) {
		return nil
	}
	return s.replies[len(s.requests)-1]
}

// Requests gives what the server was asked so far.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request(nil), s.requests...)
}

// Config calls the server, with waits that a test does not notice.
func (s *Server) Config(key string) provider.Config {
	return provider.Config{
		Key: key, BaseURL: s.URL, Transport: s.transport,
		Tries: 3, Backoff: time.Millisecond, MaxWait: 10 * time.Millisecond,
	}
}

// Stream sends an event stream, part by part.
func Stream(parts ...string) Reply {
	return func(w http.ResponseWriter, _ *http.Request) { stream(w, parts) }
}

// Break sends the beginning of an event stream and drops the connection.
func Break(parts ...string) Reply {
	return func(w http.ResponseWriter, _ *http.Request) {
		stream(w, parts)
		panic(http.ErrAbortHandler)
	}
}

// Hang sends the beginning of an event stream, tells told, and then nothing until the client is gone.
func Hang(told chan<- struct{}, parts ...string) Reply {
	return func(w http.ResponseWriter, r *http.Request) {
		if len(parts) > 0 {
			stream(w, parts)
		}
		if told != nil {
			told <- struct{}{}
		}
		<-r.Context().Done()
	}
}

// Slow sends an event stream byte by byte.
func Slow(text string) Reply {
	return func(w http.ResponseWriter, _ *http.Request) {
		parts := make([]string, len(text))
		for i := range text {
			parts[i] = text[i : i+1]
		}
		stream(w, parts)
	}
}

func stream(w http.ResponseWriter, parts []string) {
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	w.WriteHeader(http.StatusOK)
	for _, part := range parts {
		if _, err := io.WriteString(w, part); err != nil {
			return
		}
		w.(http.Flusher).Flush()
	}
}

// Refuse answers with a status and a JSON body; header is name, value, name, value.
func Refuse(status int, body string, header ...string) Reply {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		io.WriteString(w, body)
	}
}

// Step is the first step of a thread that was given a task.
func Step(name, instruction string) *model.Request {
	task := &a2e.TaskDefinition{Name: "job", Instruction: instruction}
	content, err := json.Marshal(task)
	if err != nil {
		panic(err)
	}
	return &model.Request{
		Thread: "sub_00000001", Session: 1, Step: 1, Task: task,
		Config:   a2e.SubagentConfig{Name: "ada", Role: "reader", Model: name},
		History:  []model.Entry{{Kind: model.EntryTask, Role: model.RoleUser, Session: 1, Step: 1, Content: content}},
		Progress: func(string) {},
	}
}

// Next is the step after r, of which resp was the outcome; results are the answers to its calls, in order.
func Next(r *model.Request, resp *model.Response, results ...string) *model.Request {
	next := *r
	next.Step++
	next.History = append([]model.Entry(nil), r.History...)
	add := func(kind model.EntryKind, role model.Role, call model.Call, content json.RawMessage) {
		next.History = append(next.History, model.Entry{
			Kind: kind, Role: role, Session: r.Session, Step: r.Step, Call: call.ID, Name: call.Name, Content: content,
		})
	}
	if resp.Text != "" {
		text, err := json.Marshal(resp.Text)
		if err != nil {
			panic(err)
		}
		add(model.EntrySay, model.RoleAssistant, model.Call{}, text)
	}
	for _, call := range resp.Calls {
		add(model.EntryCall, model.RoleAssistant, call, call.Arguments)
	}
	for i, result := range results {
		add(model.EntryResult, model.RoleUser, resp.Calls[i], json.RawMessage(result))
	}
	return &next
}
