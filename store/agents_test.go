package store_test

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/store"
	"github.com/troupehq/troupe/subjects"
)

func (e *env) apply(t testing.TB, name, data string, version uint64, changed bool) {
	t.Helper()
	v, c, err := e.Agents.Apply(t.Context(), name, []byte(data))
	if err != nil || v != version || c != changed {
		t.Fatalf("applying %q to %q gave version %d, changed %v (%v); want %d, %v", data, name, v, c, err, version, changed)
	}
}

func (e *env) agent(t testing.TB, name string, version uint64, data string, found uint64) {
	t.Helper()
	got, v, err := e.Agents.Get(t.Context(), name, version)
	if err != nil || string(got) != data || v != found {
		t.Fatalf("version %d of %q is %q, version %d (%v); want %q, version %d", version, name, got, v, err, data, found)
	}
}

func agents(t *testing.T, e *env) {
	long := strings.Repeat("*", 1024) // three bytes each in a subject
	for _, name := range []string{"assistant", "風林火山 Agent", "assistant.1", "*", ">", "a b", long} {
		_, _, err := e.Agents.Get(t.Context(), name, 0)
		wantKind(t, "Get of no agent", err, actor.NotFound)
		_, err = e.Agents.Versions(t.Context(), name)
		wantKind(t, "Versions of no agent", err, actor.NotFound)
		e.apply(t, name, "one", 1, true)
		e.apply(t, name, "one", 1, false)
		e.apply(t, name, "two", 2, true)
		e.apply(t, name, "one", 3, true) // an old one again is a new version
		e.apply(t, name, "one", 3, false)
		e.agent(t, name, 0, "one", 3)
		e.agent(t, name, 2, "two", 2)
		_, _, err = e.Agents.Get(t.Context(), name, 4)
		wantKind(t, "Get of no such version", err, actor.NotFound)
		versions, err := e.Agents.Versions(t.Context(), name)
		if err != nil || len(versions) != 3 || versions[0].Version != 1 || versions[2].Version != 3 || versions[1].Name != name || versions[0].Applied.IsZero() {
			t.Errorf("the versions of %q are %+v (%v), want 1, 2 and 3", name, versions, err)
		}
	}
	for _, bad := range []string{"", "\xff", long + "x"} {
		_, _, err := e.Agents.Apply(t.Context(), bad, nil)
		wantKind(t, fmt.Sprintf("Apply to %.9q", bad), err, actor.SchemaViolation)
		_, _, err = e.Agents.Get(t.Context(), bad, 0)
		wantKind(t, fmt.Sprintf("Get of %.9q", bad), err, actor.SchemaViolation)
		_, err = e.Agents.Versions(t.Context(), bad)
		wantKind(t, fmt.Sprintf("Versions of %.9q", bad), err, actor.SchemaViolation)
	}
	_, _, err := e.Agents.Apply(t.Context(), "large", make([]byte, store.MaxDefinitionBytes+1))
	wantKind(t, "Apply of too much", err, actor.TooLarge)
	large := bytes.Repeat([]byte("x"), store.MaxDefinitionBytes)
	e.apply(t, "large", string(large), 1, true)
}

// agentsTogether: what several apply at the same moment becomes one version each, and none twice.
func agentsTogether(t *testing.T, e *env) {
	const writers = 8
	versions := make([]uint64, writers)
	var all sync.WaitGroup
	for i := range writers {
		all.Go(func() {
			version, changed, err := e.Agents.Apply(t.Context(), "together", fmt.Appendf(nil, "%d", i/2)) // two apply the same
			if err != nil || !changed {
				t.Errorf("writer %d: changed %v (%v), want a change", i, changed, err)
			}
			versions[i] = version
		})
	}
	all.Wait()
	newest, found, err := e.Agents.Get(t.Context(), "together", 0)
	if err != nil {
		t.Fatal(err)
	}
	listed, err := e.Agents.Versions(t.Context(), "together")
	if err != nil || uint64(len(listed)) != found || found < writers/2 || found > writers {
		t.Fatalf("%d versions, the newest is %d %q (%v); want as many as its number, from %d to %d", len(listed), found, newest, err, writers/2, writers)
	}
	for i, version := range versions {
		e.agent(t, "together", version, fmt.Sprint(i/2), version)
	}
	var before []byte
	for _, v := range listed {
		data, _, err := e.Agents.Get(t.Context(), "together", v.Version)
		if err != nil || bytes.Equal(data, before) {
			t.Errorf("versions %d and %d are both %q (%v): the same was stored twice", v.Version-1, v.Version, data, err)
		}
		before = data
	}
}

// agentsOrphan: a writer died behind its version, before it was announced.
func agentsOrphan(t *testing.T, e *env) {
	orphan := func(name string, version uint64) {
		t.Helper()
		subject := subjects.KVSubject(e.names.AgentsBucket(), subjects.AgentVersionKey(name, version))
		if _, err := e.js.Publish(t.Context(), subject, []byte("orphan")); err != nil {
			t.Fatal(err)
		}
	}
	e.apply(t, "orphan", "one", 1, true)
	orphan("orphan", 2)
	e.agent(t, "orphan", 0, "one", 1)
	e.apply(t, "orphan", "three", 3, true)
	e.agent(t, "orphan", 2, "orphan", 2)
	orphan("born orphan", 1)
	e.apply(t, "born orphan", "orphan", 1, true) // its writer tries again
	e.apply(t, "born orphan", "orphan", 1, false)
	e.agent(t, "born orphan", 0, "orphan", 1)
}

// agentsForeign: what others put into the bucket is not in the list, and what they delete is not found.
func agentsForeign(t *testing.T, e *env) {
	kv, err := e.js.KeyValue(t.Context(), e.names.AgentsBucket())
	if err != nil {
		t.Fatalf("a plain NATS client must be able to bind to the bucket: %v", err)
	}
	e.apply(t, "foreign b", "one", 1, true)
	e.apply(t, "foreign a", "one", 1, true)
	e.apply(t, "foreign a", "two", 2, true)
	for key, value := range map[string]string{"foreign": "no JSON", "foreign=5": `{"version":1}`, "foreign0": `{"version":0}`, "foreign=20a.x": "", "foreign=20a.01": "x", "foreign=20a.1.1": "x"} {
		if _, err := kv.Put(t.Context(), key, []byte(value)); err != nil {
			t.Fatal(err)
		}
	}
	list, err := e.Agents.List(t.Context())
	var got []string
	for _, a := range list {
		if strings.HasPrefix(a.Name, "foreign") {
			got = append(got, fmt.Sprintf("%s:%d:%v", a.Name, a.Version, a.Applied.IsZero()))
		}
	}
	if err != nil || strings.Join(got, ",") != "foreign a:2:false,foreign b:1:false" {
		t.Errorf("the list is %q (%v), want foreign a and foreign b, by name", got, err)
	}
	if versions, err := e.Agents.Versions(t.Context(), "foreign a"); err != nil || len(versions) != 2 {
		t.Errorf("%+v (%v), want two versions", versions, err)
	}
	if entry, err := kv.Get(t.Context(), subjects.AgentVersionKey("foreign a", 2)); err != nil || string(entry.Value()) != "two" {
		t.Errorf("a plain NATS client reads %v (%v), want the definition", entry, err)
	}
	if err := kv.Delete(t.Context(), subjects.AgentVersionKey("foreign a", 2)); err != nil {
		t.Fatal(err)
	}
	_, _, err = e.Agents.Get(t.Context(), "foreign a", 0)
	wantKind(t, "Get of a version that was deleted", err, actor.NotFound)
	e.apply(t, "foreign a", "two", 3, true)
	if err := kv.Delete(t.Context(), subjects.AgentKey("foreign b")); err != nil {
		t.Fatal(err)
	}
	_, _, err = e.Agents.Get(t.Context(), "foreign b", 0)
	wantKind(t, "Get of an agent that was deleted", err, actor.NotFound)
	e.apply(t, "foreign b", "two", 2, true)
}
