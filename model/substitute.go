package model

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/troupehq/troupe/actor"
)

// maxSubstituted is how far one step of a script may grow: a few references to a large result,
// not a thousand of them.
const maxSubstituted = 8 << 20

// A scope is what the references of one step stand for. It belongs to one call of Step, and
// remembers what it looked up.
type scope struct {
	r       *Request
	results []json.RawMessage
	found   map[string]json.RawMessage // by whole reference
	grown   int                        // bytes substituted in this step
}

func newScope(r *Request) *scope {
	s := &scope{r: r, found: map[string]json.RawMessage{}}
	for i := range r.History {
		if e := &r.History[i]; e.Kind == EntryResult && e.Session == r.Session {
			s.results = append(s.results, orNull(e.Content))
		}
	}
	return s
}

// last is the last tool result of this session, or null.
func (s *scope) last() json.RawMessage {
	if len(s.results) == 0 {
		return json.RawMessage("null")
	}
	return s.results[len(s.results)-1]
}

// substitute gives raw with every reference in it replaced. All other bytes stay as they are. The
// error is a schema_violation of field when the outcome is too large, or an interruption.
func (s *scope) substitute(ctx context.Context, field string, raw json.RawMessage) (json.RawMessage, error) {
	raw = orNull(raw)
	if !bytes.ContainsAny(raw, `$\`) {
		return raw, nil
	}
	var out bytes.Buffer
	kept := 0 // raw[:kept] is in out
	err := eachString(raw, func(start, end int, text string) error {
		v, ok, err := s.replacement(ctx, text)
		if err != nil || !ok {
			return err
		}
		if s.grown += len(v); s.grown > maxSubstituted {
			return badScript(field, fmt.Errorf("grows over %d bytes", maxSubstituted))
		}
		out.Write(raw[kept:start])
		out.Write(v)
		kept = end
		return nil
	})
	if err != nil {
		return nil, err
	}
	out.Write(raw[kept:])
	return out.Bytes(), nil
}

// replacement tells what takes the place of a string, if anything does.
func (s *scope) replacement(ctx context.Context, text string) (v json.RawMessage, ok bool, err error) {
	if strings.HasPrefix(text, "$$") {
		v, err = encode(text[1:])
		return v, true, err
	}
	root, path, ok := reference(text)
	if !ok {
		return nil, false, nil
	}
	if v, ok = s.found[text]; ok {
		return v, true, nil
	}
	if err = interrupted(ctx, "model.Script", s.r.Thread); err != nil {
		return nil, false, err
	}
	if v, err = s.lookup(root, path); err != nil {
		return nil, false, err
	}
	s.found[text] = v
	return v, true, nil
}

// lookup finds what a reference stands for. A root that is a list of results is not put together
// only to be taken apart again.
func (s *scope) lookup(root string, path []string) (json.RawMessage, error) {
	switch root {
	case "last":
		return inside(s.last(), path), nil
	case "results":
		if len(path) == 0 {
			return encode(append([]json.RawMessage{}, s.results...))
		}
		if i, ok := index(path[0], len(s.results)); ok {
			return inside(s.results[i], path[1:]), nil
		}
		return json.RawMessage("null"), nil
	case "inbox":
		v, err := encode(s.inbox())
		return inside(v, path), err
	case "task":
		v, err := encode(s.r.Task)
		return inside(v, path), err
	case "instruction":
		if s.r.Task == nil {
			return json.RawMessage("null"), nil
		}
		v, err := encode(s.r.Task.Instruction)
		return inside(v, path), err
	}
	panic("model: reference to " + root + " is parsed but not known")
}

// A letter is one entry of $inbox.
type letter struct {
	From     actor.ID        `json:"from"`
	Type     string          `json:"type"`
	Content  json.RawMessage `json:"content"`
	Metadata json.RawMessage `json:"metadata,omitempty"`
}

// inbox lists the messages and completions that this step is the first to see.
func (s *scope) inbox() []letter {
	list := []letter{}
	for i := range s.r.History {
		e := &s.r.History[i]
		if e.Session != s.r.Session || e.Step != s.r.Step {
			continue
		}
		if e.Kind == EntryMessage || e.Kind == EntryCompletion {
			list = append(list, letter{From: e.From, Type: e.Type, Content: orNull(e.Content), Metadata: e.Metadata})
		}
	}
	return list
}

// inside follows a path of keys and list indices into v. What is not there is null.
func inside(v json.RawMessage, path []string) json.RawMessage {
	for _, name := range path {
		v = orNull(v)
		switch v[0] {
		case '{':
			keys, err := object(v)
			if err != nil {
				return json.RawMessage("null")
			}
			v = keys[name]
		case '[':
			var list []json.RawMessage
			if err := json.Unmarshal(v, &list); err != nil {
				return json.RawMessage("null")
			}
			i, ok := index(name, len(list))
			if !ok {
				return json.RawMessage("null")
			}
			v = list[i]
		default:
			return json.RawMessage("null")
		}
	}
	return orNull(v)
}

// index reads a list index below n, in its shortest form.
func index(s string, n int) (int, bool) {
	i, err := strconv.Atoi(s)
	return i, err == nil && i >= 0 && i < n && strconv.Itoa(i) == s
}

// eachString calls f for every string in raw that is a value and not a key, with its place,
// quotes included, and its text.
func eachString(raw []byte, f func(start, end int, text string) error) error {
	type level struct{ object, key bool } // key: in an object, and a key comes next
	levels := []level{{}}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	for prev := 0; ; prev = int(dec.InputOffset()) {
		tok, err := dec.Token()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		top := &levels[len(levels)-1]
		text, isText := tok.(string)
		delim, isDelim := tok.(json.Delim)
		switch {
		case isDelim && (delim == '}' || delim == ']'):
			levels = levels[:len(levels)-1]
			continue
		case top.key:
			top.key = false
			continue
		case top.object:
			top.key = true
		}
		if isDelim {
			levels = append(levels, level{object: delim == '{', key: delim == '{'})
		}
		if isText {
			end := int(dec.InputOffset())
			if err := f(prev+bytes.IndexByte(raw[prev:end], '"'), end, text); err != nil {
				return err
			}
		}
	}
}
