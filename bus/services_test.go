package bus_test

import (
	"testing"

	"github.com/troupehq/troupe/bus"
	"github.com/troupehq/troupe/test/natstest"
)

// TestServices: how the jobs of a service stand, also of one that no worker has ever served.
func TestServices(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	jobs := r.conn.Jobs(r.names)
	services := func() []bus.Service {
		t.Helper()
		all, err := jobs.Services(natstest.Context(t))
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	if got := services(); len(got) != 0 {
		t.Fatalf("without jobs there are the services %+v", got)
	}
	for _, name := range []string{"a.b", "nobody's"} {
		for n := range uint64(3) {
			if _, err := jobs.Queue(r.names.Work("tool", name, "sub_1", n), []byte("{}")).Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	first := take(t, r.taker(t, 0))
	var got []bus.Service
	natstest.Await(t, "one job that a worker has, and the others waiting", func() bool {
		got = services()
		return len(got) == 2 && got[0].Running == 1
	})
	if s := got[0]; s.Kind != "tool" || s.Name != "a.b" || s.Waiting != 2 || s.Redelivered != 0 || !s.Served || s.Oldest.IsZero() {
		t.Errorf("a served service is %+v", s)
	}
	if s := got[1]; s.Name != "nobody's" || s.Waiting != 3 || s.Running != 0 || s.Served || s.Oldest.IsZero() {
		t.Errorf("a service without workers is %+v", s)
	}
	natstest.Await(t, "the job again, for its worker has said nothing", func() bool {
		taken := take(t, r.taker(t, 0))
		return taken.Subject == first.Subject
	})
	if s := services()[0]; s.Redelivered == 0 || s.Waiting != 0 || !s.Oldest.IsZero() {
		t.Errorf("with all jobs at workers, one for the second time, it is %+v", s)
	}
}
