package price

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/model"
)

// A Price is in US dollars for a million tokens.
type Price struct {
	Input      float64 `json:"input"`
	Output     float64 `json:"output"`
	CacheRead  float64 `json:"cache_read"`  // of input that the provider had cached
	CacheWrite float64 `json:"cache_write"` // of input that it cached now

	// LongPrompt is the price of a whole request with more input tokens than LongPrompt.Over; or nil.
	LongPrompt *LongPrice `json:"long_prompt,omitempty"`
}

// A LongPrice is the price of a request with a long prompt.
type LongPrice struct {
	Over int64 `json:"over"` // input tokens, cached ones included
	Price
}

// A Config says which prices a table has beside the built-in ones, which it replaces where both have a key.
type Config struct {
	Prices map[string]Price
}

func (c Config) validate() error {
	for _, name := range slices.Sorted(maps.Keys(c.Prices)) {
		if strings.Trim(name, "*/") == "" {
			return invalid("prices", fmt.Errorf("%q names no model", name))
		}
		p := c.Prices[name]
		if err := p.validate(); err != nil {
			return invalid("prices."+name, err)
		}
	}
	return nil
}

func (p *Price) validate() error {
	for _, usd := range []float64{p.Input, p.Output, p.CacheRead, p.CacheWrite} {
		if usd < 0 || math.IsNaN(usd) || math.IsInf(usd, 0) {
			return fmt.Errorf("%v is not a price", usd)
		}
	}
	if p.LongPrompt == nil {
		return nil
	}
	if p.LongPrompt.Over < 0 || p.LongPrompt.LongPrompt != nil {
		return errors.New("long_prompt: over is a number of tokens, and there is one long_prompt only")
	}
	return p.LongPrompt.validate()
}

func invalid(field string, err error) error {
	return &actor.Error{Op: "price.New", Kind: actor.SchemaViolation, Field: field, Err: err}
}

// A Table has the prices of models. It does not change, and is safe for concurrent use.
type Table struct {
	prices map[string]Price
}

// New makes a table of the built-in prices and those of c. A price below zero, or a key without a name, is a
// schema_violation.
func New(c Config) (*Table, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	prices := builtin()
	maps.Copy(prices, c.Prices)
	return &Table{prices: prices}, nil
}

// Read reads prices as people write them: a JSON object of a [Price] for each key. A price without cache_read
// or cache_write has the input's there. What is not JSON is a parse_error, an unknown field or one of the
// wrong type a schema_violation that names it.
func Read(r io.Reader) (map[string]Price, error) {
	data, err := io.ReadAll(r)
	if err != nil {
		return nil, &actor.Error{Op: "price.Read", Kind: actor.RuntimeError, Err: err}
	}
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(data, &raw); err != nil {
		return nil, &actor.Error{Op: "price.Read", Kind: actor.ParseError, Err: err}
	}
	prices := map[string]Price{}
	for _, name := range slices.Sorted(maps.Keys(raw)) {
		p, err := parse(raw[name])
		if err != nil {
			return nil, &actor.Error{Op: "price.Read", Kind: actor.SchemaViolation, Field: "prices." + name, Err: err}
		}
		prices[name] = p
	}
	return prices, nil
}

// written is a Price with what was left out.
type written struct {
	Input      *float64 `json:"input"`
	Output     *float64 `json:"output"`
	CacheRead  *float64 `json:"cache_read"`
	CacheWrite *float64 `json:"cache_write"`
}

// price checks that what has no default is there.
func (w *written) price() (p Price, err error) {
	if w.Input == nil || w.Output == nil {
		return p, errors.New("input and output are required, in US dollars for a million tokens")
	}
	p = Price{Input: *w.Input, Output: *w.Output, CacheRead: *w.Input, CacheWrite: *w.Input}
	if w.CacheRead != nil {
		p.CacheRead = *w.CacheRead
	}
	if w.CacheWrite != nil {
		p.CacheWrite = *w.CacheWrite
	}
	return p, nil
}

func parse(data []byte) (p Price, err error) {
	var file struct {
		written
		LongPrompt *struct {
			Over int64 `json:"over"`
			written
		} `json:"long_prompt"`
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&file); err != nil {
		return p, err
	}
	if p, err = file.price(); err != nil || file.LongPrompt == nil {
		return p, err
	}
	long, err := file.LongPrompt.price()
	p.LongPrompt = &LongPrice{Over: file.LongPrompt.Over, Price: long}
	return p, err
}

// Cost gives what tokens of a model cost in US dollars. It reports false when the model has no price.
func (t *Table) Cost(name string, u model.Usage) (usd float64, known bool) {
	p, ok := t.find(name)
	if !ok {
		return 0, false
	}
	if p.LongPrompt != nil && u.InputTokens > p.LongPrompt.Over {
		p = p.LongPrompt.Price
	}
	plain := max(u.InputTokens-u.CacheReadTokens-u.CacheWriteTokens, 0)
	usd = float64(plain)*p.Input + float64(u.OutputTokens)*p.Output +
		float64(u.CacheReadTokens)*p.CacheRead + float64(u.CacheWriteTokens)*p.CacheWrite
	return usd / 1e6, true
}

// find gives the price of exactly that name, else of the name without its date, else of the longest prefix.
func (t *Table) find(name string) (Price, bool) {
	for _, key := range []string{name, undated(name)} {
		if p, ok := t.prices[key]; ok {
			return p, true
		}
	}
	for i := len(name); i >= 0; i-- {
		if p, ok := t.prices[name[:i]+"*"]; ok {
			return p, true
		}
	}
	return Price{}, false
}

// undated takes "-20251001", "-2026-03-05" or "-latest" off a name.
func undated(name string) string {
	if short, ok := strings.CutSuffix(name, "-latest"); ok {
		return short
	}
	for _, form := range []string{"-00000000", "-0000-00-00"} {
		if at := len(name) - len(form); at > 0 && shaped(name[at:], form) {
			return name[:at]
		}
	}
	return name
}

// shaped reports whether s has a digit where form has a 0, and else is the same.
func shaped(s, form string) bool {
	for i := range len(form) {
		if digit := s[i] >= '0' && s[i] <= '9'; digit != (form[i] == '0') || !digit && s[i] != form[i] {
			return false
		}
	}
	return true
}
