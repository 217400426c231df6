package host

import "sync"

// maxRecent is how many things of each of two generations are held.
const maxRecent = 8192

// A recent holds things for a while, in bounded memory: the old generation goes when the young one is full or
// has aged.
type recent[K comparable, V any] struct {
	mu         sync.Mutex
	young, old map[K]V
}

func (r *recent[K, V]) put(k K, v V) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.young == nil || len(r.young) >= maxRecent {
		r.young, r.old = map[K]V{}, r.young
	}
	r.young[k] = v
}

// take gives a thing away.
func (r *recent[K, V]) take(k K) (V, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	v, ok := r.young[k]
	if !ok {
		v, ok = r.old[k]
	}
	delete(r.young, k)
	delete(r.old, k)
	return v, ok
}

// age forgets what was put before the last call.
func (r *recent[K, V]) age() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.young, r.old = nil, r.young
}

// A revision is that of a registry entry which tells of journal sequence j.
type revision struct{ rev, j uint64 }
