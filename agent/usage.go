package agent

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
)

// A Usage is what steps cost. Cached tokens are part of the input tokens.
type Usage struct {
	Steps            int64  `json:"steps"`
	InputTokens      int64  `json:"input_tokens,omitempty"`
	OutputTokens     int64  `json:"output_tokens,omitempty"`
	CacheReadTokens  int64  `json:"cache_read_tokens,omitempty"`
	CacheWriteTokens int64  `json:"cache_write_tokens,omitempty"`
	USD              Micros `json:"usd,omitempty"`
}

// maxUsed bounds what one step may tell of itself, so that sums never overflow.
const maxUsed = 1 << 40

// bounded is what a step is believed to have cost.
func (u Usage) bounded() Usage {
	for _, n := range []*int64{&u.Steps, &u.InputTokens, &u.OutputTokens, &u.CacheReadTokens, &u.CacheWriteTokens, (*int64)(&u.USD)} {
		*n = min(max(*n, 0), maxUsed)
	}
	return u
}

// Add adds what others cost.
func (u *Usage) Add(v Usage) {
	u.Steps += v.Steps
	u.InputTokens += v.InputTokens
	u.OutputTokens += v.OutputTokens
	u.CacheReadTokens += v.CacheReadTokens
	u.CacheWriteTokens += v.CacheWriteTokens
	u.USD += v.USD
}

// Tokens are those of the input and of the output.
func (u *Usage) Tokens() int64 { return u.InputTokens + u.OutputTokens }

// Micros is an amount of US dollars in millionths. In JSON it is in dollars.
type Micros int64

// Dollars gives an amount in millionths, rounded.
func Dollars(usd float64) Micros {
	us := math.Round(usd * 1e6)
	switch {
	case !(us > 0): // NaN as well
		return 0
	case us >= math.MaxInt64:
		return math.MaxInt64
	}
	return Micros(us)
}

// String is the amount in dollars, without zeros at the end.
func (m Micros) String() string {
	sign := ""
	if m < 0 {
		sign, m = "-", -m
	}
	rest := strings.TrimRight(strconv.FormatInt(1_000_000+int64(m%1_000_000), 10)[1:], "0")
	if rest != "" {
		rest = "." + rest
	}
	return sign + strconv.FormatInt(int64(m/1_000_000), 10) + rest
}

// MarshalJSON writes dollars, as a number.
func (m Micros) MarshalJSON() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalJSON reads dollars.
func (m *Micros) UnmarshalJSON(data []byte) error {
	var usd float64
	err := json.Unmarshal(data, &usd)
	*m = Dollars(usd)
	return err
}

// used adds what a step cost to the session and to the thread's life. Steps are counted when they begin.
func (h *head) used(s Usage) {
	s.Steps = 0
	h.Used.Add(s)
	h.Life.Add(s)
}

// usage is what the session cost.
func (h *head) usage() json.RawMessage {
	u := h.Used
	u.Steps = int64(h.Step)
	data, err := json.Marshal(&u)
	if err != nil {
		panic("agent: usage: " + err.Error())
	}
	return data
}

// life is what the thread cost so far; nil for one that took no step.
func (h *head) life() *Usage {
	if h.Steps == 0 {
		return nil
	}
	u := h.Life
	u.Steps = int64(h.Steps)
	return &u
}
