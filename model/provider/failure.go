package provider

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/troupehq/troupe/actor"
)

// A Failure is why a try gave no answer.
type Failure struct {
	Status  int           // of HTTP, or 0
	Type    string        // the provider's word for it: "overloaded_error"
	Message string        // for people
	After   time.Duration // the wait that the provider asks for, or 0
	Final   bool          // the provider says that another try is in vain
	Silent  bool          // nothing came for too long
}

// Error is what the provider said, or what happened instead.
func (f *Failure) Error() string {
	text := clip(strings.TrimSpace(f.Message), maxMessage)
	if text == "" {
		text = strings.ReplaceAll(f.Type, "_", " ")
	}
	if f.Status >= 300 {
		status := strings.TrimSpace(strconv.Itoa(f.Status) + " " + http.StatusText(f.Status))
		if text == "" {
			return "the provider answered " + status
		}
		return fmt.Sprintf("the provider answered %s: %s", status, text)
	}
	if f.Type != "" {
		return fmt.Sprintf("the provider broke off with %s: %s", f.Type, text)
	}
	return text
}

// maxMessage is how much of a provider's message is told. Some answer with a whole page.
const maxMessage = 2000

// clip cuts text to at most n bytes, between characters.
func clip(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return strings.ToValidUTF8(text[:n], "") + "…"
}

// refused is a failure that came as an HTTP answer.
func refused(resp *http.Response, content []byte) *Failure {
	f := Told(content)
	f.Status, f.After, f.Final = resp.StatusCode, after(resp.Header), resp.Header.Get("X-Should-Retry") == "false"
	return f
}

// Told reads a failure as providers tell it, in an answer or in a stream: {"error": {"type", "code",
// "message"}} with more or less around it. What is no JSON is the message.
func Told(content []byte) *Failure {
	var told struct {
		Error   json.RawMessage `json:"error"`
		Message string          `json:"message"`
		Detail  json.RawMessage `json:"detail"`
	}
	if json.Unmarshal(content, &told) != nil {
		return &Failure{Message: strings.ToValidUTF8(string(content), "")}
	}
	var inner struct {
		Type    string          `json:"type"`
		Code    json.RawMessage `json:"code"`
		Message string          `json:"message"`
		Details struct {
			Code string `json:"error_code"`
		} `json:"details"`
	}
	if json.Unmarshal(told.Error, &inner) != nil { // some have a text there
		inner.Message = textOf(told.Error)
	}
	f := &Failure{Message: cmp.Or(inner.Message, told.Message, textOf(told.Detail), string(content))}
	var word string
	if status, err := strconv.Atoi(string(inner.Code)); err == nil && status >= 400 && status < 600 {
		f.Status = status
	} else if json.Unmarshal(inner.Code, &word) != nil {
		word = ""
	}
	f.Type = cmp.Or(inner.Details.Code, word, inner.Type)
	return f
}

// Broken is a stream that ended before the answer did.
func Broken() *Failure { return &Failure{Message: "the answer broke off: the stream ended too early"} }

// failureOf gives the Failure in err. Any other error is one of the connection: all that another try may mend.
func failureOf(err error) *Failure {
	var f *Failure
	if errors.As(err, &f) {
		return f
	}
	return &Failure{Message: err.Error()}
}

// final are the words that a stream breaks off with when another try would end the same way.
var final = map[string]bool{
	"invalid_request_error": true, "authentication_error": true, "permission_error": true, "not_found_error": true,
	"invalid_prompt": true, "model_not_found": true, "content_filter": true,
}

// passing reports whether another try may succeed.
func (f *Failure) passing() bool {
	switch {
	case f.Final || f.broke() || f.overflow():
		return false
	case f.Status == http.StatusRequestTimeout, f.Status == http.StatusConflict, f.Status == http.StatusTooManyRequests, f.Status >= 500:
		return true
	case f.Status >= 300:
		return false
	}
	return !final[f.Type]
}

// kind is the class of the failure.
func (f *Failure) kind() actor.Kind {
	switch {
	case f.overflow():
		return actor.TooLarge
	case f.Status == http.StatusUnauthorized, f.Status == http.StatusForbidden, f.broke(),
		f.Type == "authentication_error", f.Type == "permission_error":
		return actor.Unauthorized
	case f.Status == http.StatusNotFound, f.Type == "not_found_error", f.Type == "model_not_found":
		return actor.NotFound
	case f.Silent:
		return actor.Timeout
	case f.passing(), f.Final && f.Status >= 429:
		return actor.Unavailable
	case f.Status >= 400 || f.Type == "invalid_request_error":
		return actor.SchemaViolation
	}
	return actor.RuntimeError
}

// broke reports whether the account has no more credit: waiting does not help.
func (f *Failure) broke() bool {
	if f.Status == http.StatusPaymentRequired {
		return true
	}
	switch f.Type {
	case "billing_error", "insufficient_quota", "billing_hard_limit_reached", "contract_spend_limit_reached",
		"enforced_spend_limit_reached", "linked_organization_spend_limit_reached":
		return true
	}
	return f.Status == http.StatusBadRequest && strings.Contains(f.Message, "credit balance")
}

// overflow reports whether the conversation is more than the model or the provider takes.
func (f *Failure) overflow() bool {
	if f.Status == http.StatusRequestEntityTooLarge || f.Type == "request_too_large" || f.Type == "context_length_exceeded" {
		return true
	}
	if f.Status != http.StatusBadRequest && f.Status != http.StatusUnprocessableEntity {
		return false
	}
	text := strings.ToLower(f.Message)
	for _, sign := range []string{"prompt is too long", "maximum context length", "context length", "context window", "exceed context limit", "exceeds the available context"} {
		if strings.Contains(text, sign) {
			return true
		}
	}
	return false
}

// after reads how long an answer asks to wait: in milliseconds, seconds, or until a time.
func after(h http.Header) time.Duration {
	const longest = float64(24 * time.Hour)
	for name, unit := range map[string]time.Duration{"Retry-After-Ms": time.Millisecond, "Retry-After": time.Second} {
		if n, err := strconv.ParseFloat(h.Get(name), 64); err == nil && n > 0 {
			return time.Duration(min(n*float64(unit), longest))
		}
	}
	if at, err := http.ParseTime(h.Get("Retry-After")); err == nil {
		return max(time.Until(at), 0)
	}
	return 0
}
