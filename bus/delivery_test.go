package bus

import "testing"

func TestParsePosition(t *testing.T) {
	t.Parallel()
	want := position{stream: 20, consumer: 7, time: 1764500000123456789, pending: 3}
	for _, reply := range []string{
		"$JS.ACK.troupe_inbox.cons.1.20.7.1764500000123456789.3",
		"$JS.ACK._.hash.troupe_inbox.cons.1.20.7.1764500000123456789.3",
		"$JS.ACK.hub.hash.troupe_inbox.cons.1.20.7.1764500000123456789.3.random",
	} {
		if got, err := parsePosition(reply); err != nil || got != want {
			t.Errorf("%s: %+v, %v; want %+v", reply, got, err, want)
		}
	}
	for _, reply := range []string{
		"", "_INBOX.x", "$JS.ACK.", "$JS.ACK.a.b.1.20.7.5", "$JS.ACK.a.b.1.2.3.4.5.6",
		"$JS.ACK.s.c.1.x.7.5.3", "$JS.ACK.s.c.1.20..5.3", "$JS.ACK.s.c.1.20.-7.5.3",
	} {
		if got, err := parsePosition(reply); err == nil {
			t.Errorf("%q was read as %+v, want an error", reply, got)
		}
	}
}

func TestParsePositionMakesNoGarbage(t *testing.T) {
	const reply = "$JS.ACK._.hash.troupe_inbox.cons.1.20.7.1764500000123456789.3"
	if n := testing.AllocsPerRun(100, func() { _, _ = parsePosition(reply) }); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}

func TestRedact(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"nats://h:1":                         "nats://h:1",
		"nats://u:p@h:1":                     "nats://h:1",
		"token@h":                            "h",
		"nats://u:p@h1:1,tls://u:p/@w@h2:2":  "nats://h1:1,tls://h2:2",
		"nats://h1, nats://user:secret@h2:3": "nats://h1, nats://h2:3",
	} {
		if got := redact(in); got != want {
			t.Errorf("redact(%q) = %q, want %q", in, got, want)
		}
	}
}
