package agent

import (
	"fmt"
	"testing"

	"github.com/troupehq/troupe/a2e"
)

func TestGatheredStatus(t *testing.T) {
	t.Parallel()
	const failure = "error"
	for _, c := range []struct {
		got  []string
		need int
		want a2e.Status
	}{
		{[]string{"COMPLETED", "COMPLETED"}, 2, a2e.Completed},
		{[]string{"READY", "COMPLETED"}, 1, a2e.Completed},
		{[]string{"COMPLETED", "READY"}, 2, a2e.Ready},
		{[]string{"WAITING", "READY"}, 2, a2e.Waiting},
		{[]string{"RUNNING", "FAILED"}, 2, a2e.Failed},
		{[]string{"READY", "CANCELLED"}, 2, a2e.Failed},
		{[]string{"READY", "TERMINATED"}, 2, a2e.Failed},
		{[]string{"READY", failure}, 2, a2e.Failed},
	} {
		var got [][]byte
		for _, s := range c.got {
			answer := fmt.Sprintf(`{"type":"SUBAGENT_AWAIT_RESP","subagent_id":"sub_1","status":%q}`, s)
			if s == failure {
				answer = `{"type":"error","code":"not_found","message":"no such subagent"}`
			}
			got = append(got, []byte(answer))
		}
		done, resp := Gathered(a2e.ModeAll, got, 0, c.need)
		if !done || resp.Status != c.want || (resp.Error == "") != (c.want == a2e.Completed) {
			t.Errorf("of %v, with %d needed, the answer should be %s, with an error unless that is COMPLETED; it is %+v", c.got, c.need, c.want, resp)
		}
	}
}
