package host

import (
	"context"
	"encoding/json"
	"errors"
	"sync"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/agent"
	"github.com/troupehq/troupe/store"
)

// lookUp finds what a decision of a wants to know.
func (h *Host) lookUp(ctx context.Context, a actor.Address, n actor.Needs, in *actor.Input) (err error) {
	if n.IDs > 0 {
		if in.IDs, err = h.Store.IDs.Take(ctx, n.IDs); err != nil {
			return err
		}
	}
	if len(n.Threads) > 0 {
		in.Threads = make(map[actor.ID]actor.Known, len(n.Threads))
	}
	for _, id := range n.Threads {
		t, _, err := h.thread(ctx, id)
		if errors.Is(err, actor.NotFound) {
			continue
		}
		if err != nil {
			return err
		}
		in.Threads[id] = actor.Known{Lineage: t.Lineage(), Found: true, Terminated: t.Terminated()}
	}
	if n.Tree {
		in.Tree, err = h.tree(ctx, a.ID)
	}
	return err
}

// thread reads a thread as its journal has it. NotFound means that there is none.
func (h *Host) thread(ctx context.Context, id actor.ID) (*agent.Thread, store.Message, error) {
	last, err := h.Store.Journal.Last(ctx, actor.Address{ID: id})
	if err != nil {
		return nil, last, err
	}
	r, err := decodeRecord(last)
	if err != nil {
		return nil, last, err
	}
	at, err := agent.BirthSeq(r)
	if err != nil {
		return nil, last, err
	}
	birth := r
	if at != 0 {
		m, _, err := h.Store.Journal.At(ctx, at)
		if err != nil {
			return nil, last, err
		}
		if birth, err = decodeRecord(m); err != nil {
			return nil, last, err
		}
	}
	t, err := agent.Load(r, last.Seq, birth)
	return t, last, err
}

// tree lists every thread of a tree, from the registry.
func (h *Host) tree(ctx context.Context, root actor.ID) ([]actor.Known, error) {
	entries, err := h.Store.Registry.Tree(ctx, root)
	if err != nil {
		return nil, err
	}
	parents := make(map[actor.ID]actor.ID, len(entries))
	for _, e := range entries {
		parents[e.Child] = e.Parent
	}
	known := make([]actor.Known, 0, len(entries))
	for _, e := range entries {
		var status struct {
			Status string `json:"status"`
		}
		if err := json.Unmarshal(e.Data, &status); err != nil {
			return nil, err
		}
		known = append(known, actor.Known{
			Lineage:    actor.Lineage{ID: e.Child, Ancestors: ancestors(parents, e.Child), Outside: !IsThread(root)},
			Found:      true,
			Terminated: status.Status == agent.StatusTerminated,
		})
	}
	return known, nil
}

// ancestors follows the parents of id up to the root, which comes first.
func ancestors(parents map[actor.ID]actor.ID, id actor.ID) []actor.ID {
	var up []actor.ID
	for p, ok := parents[id]; ok && p != ""; p, ok = parents[p] {
		up = append(up, p)
		if len(up) > len(parents) {
			break // a circle, which births can't make
		}
	}
	for i, j := 0, len(up)-1; i < j; i, j = i+1, j-1 {
		up[i], up[j] = up[j], up[i]
	}
	return up
}

// shrink puts a value that is too large to travel inline into a blob.
func (h *Host) shrink(ctx context.Context, v actor.Value) (actor.Value, error) {
	return h.shrinkTo(ctx, v, actor.MaxInline)
}

// shrinkTo puts a value of more than limit bytes into a blob.
func (h *Host) shrinkTo(ctx context.Context, v actor.Value, limit int) (actor.Value, error) {
	if v.Blob || len(v.JSON) <= limit {
		return v, nil
	}
	ref, err := h.Store.Blobs.Put(ctx, v.JSON)
	if err != nil {
		return v, err
	}
	data, err := json.Marshal(map[string]store.Ref{"$blob": ref})
	return actor.Value{JSON: data, Blob: true}, err
}

// full gives the JSON of a value, wherever it is.
func (h *Host) full(ctx context.Context, v actor.Value) (json.RawMessage, error) {
	if !v.Blob {
		return v.JSON, nil
	}
	ref, err := refOf(v)
	if err != nil {
		return nil, err
	}
	return h.Store.Blobs.Get(ctx, ref)
}

// refOf reads the reference that a large value is.
func refOf(v actor.Value) (store.Ref, error) {
	var ref struct {
		Blob store.Ref `json:"$blob"`
	}
	err := json.Unmarshal(v.JSON, &ref)
	return ref.Blob, err
}

// lineages remembers where threads stand in their trees, which never changes.
type lineages struct {
	mu    sync.Mutex
	known map[actor.ID]actor.Lineage
}

// maxLineages bounds the memory of lineages.
const maxLineages = 65_536

// lineage finds a thread's place in its tree. An agent outside stands at its root.
func (h *Host) lineage(ctx context.Context, id actor.ID) (actor.Lineage, error) {
	if !IsThread(id) {
		return actor.Lineage{ID: id, Outside: true}, nil
	}
	h.lineages.mu.Lock()
	l, ok := h.lineages.known[id]
	h.lineages.mu.Unlock()
	if ok {
		return l, nil
	}
	t, _, err := h.thread(ctx, id)
	if err != nil {
		return l, err
	}
	h.lineages.mu.Lock()
	defer h.lineages.mu.Unlock()
	if len(h.lineages.known) >= maxLineages {
		clear(h.lineages.known)
	}
	h.lineages.known[id] = t.Lineage()
	return t.Lineage(), nil
}
