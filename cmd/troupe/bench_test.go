package main

import (
	"encoding/json"
	"strings"
	"testing"
)

// The forms of the bench that run processes of their own work, and say what must be nil on every machine. Speed is not
// judged.
func TestBenchForms(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		args []string
		rows []string
	}{
		{"threads", []string{"--threads", "60"}, []string{"60 idle threads", "disk", "after a stop", "after kill -9", "memory of troupe up", "another worker", "list a parent's 10 children", "cold thread"}},
		{"hosts", []string{"--hosts", "2", "--children", "40", "--window", "8"}, []string{"1 workers", "2 workers"}},
		{"failover", []string{"--failover", "--kills", "1"}, []string{"progress of all its threads", "the longest", "accepted", "lost", "doubled"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var printed struct {
				Rows []struct {
					Name  string  `json:"name"`
					Value float64 `json:"value"`
				} `json:"rows"`
			}
			out := troupe(t, append([]string{"bench", "-o", "json"}, tt.args...)...).succeeds(t)
			if err := json.Unmarshal([]byte(out), &printed); err != nil {
				t.Fatalf("%v in %s", err, out)
			}
			if len(printed.Rows) != len(tt.rows) {
				t.Fatalf("%d rows, want %d: %s", len(printed.Rows), len(tt.rows), out)
			}
			for i, want := range tt.rows {
				r := printed.Rows[i]
				if !strings.Contains(r.Name, want) {
					t.Errorf("row %d is %q, want %q in it", i, r.Name, want)
				}
				if never := want == "lost" || want == "doubled"; never && r.Value != 0 {
					t.Errorf("%s: %v", r.Name, r.Value)
				}
			}
		})
	}
	if o := troupe(t, "bench", "--threads", "10", "--failover"); o.code == exitOK {
		t.Error("two forms at once were taken")
	}
}
