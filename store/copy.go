package store

import (
	"context"

	"github.com/troupehq/troupe/actor"
)

// Copy gives files of one thread to another, all or none, and says what they are called there, in
// the order of paths. A name that is taken there gets a number: of "report.pdf" it becomes
// "report-2.pdf". NotFound names every path that is missing; nothing is copied then.
//
// A key makes Copy repeatable, after a crash, say: what was copied under the key, from the same
// thread and path, is not copied again but told again, also when it was changed or removed at its
// source since. It is a copy anew once the receiver has removed it. Without a key every Copy is a
// new one.
func (f *Files) Copy(ctx context.Context, from actor.ID, paths []string, to actor.ID, key string) ([]File, error) {
	const op = "store.Files.Copy"
	ctx, cancel := within(ctx, scanDeadline)
	defer cancel()
	clean := make([]string, len(paths))
	for i, path := range paths {
		var err error
		if clean[i], err = cleanPath(path); err != nil {
			return nil, fault(op, from, err)
		}
	}
	if len(key) > maxName {
		return nil, fault(op, to, refuse(actor.SchemaViolation, "key", "%d bytes, at most %d are allowed", len(key), maxName))
	}
	var files []File
	err := f.update(ctx, to, func(m *manifest) (write bool, err error) {
		files, write, err = f.receive(ctx, m, from, clean, key)
		return write, err
	})
	if err != nil {
		return nil, fault(op, to, err)
	}
	return files, nil
}

// receive puts into a manifest what it does not have yet, and finds what it has. The source is read
// only when something is missing, once, so that all files are of one moment.
func (f *Files) receive(ctx context.Context, m *manifest, from actor.ID, paths []string, key string) (files []File, write bool, err error) {
	have := brought(m, from, key) // by the path at the source
	var source manifest
	var missing []string
	for _, path := range paths {
		if _, ok := have[path]; ok {
			continue
		}
		if source.Files == nil {
			if source, err = f.load(ctx, from); err != nil {
				return nil, false, err
			}
		}
		entry, ok := source.Files[path]
		if !ok {
			missing = append(missing, path)
			continue
		}
		local := freePath(path, func(p string) bool { _, taken := m.Files[p]; return taken })
		entry.Modified, entry.Copy = f.now().UTC(), nil
		if key != "" {
			entry.Copy = &origin{key, from, path}
		}
		m.Files[local], have[path], write = entry, local, true
	}
	if missing != nil {
		return nil, false, notThere(from, missing...)
	}
	for _, path := range paths {
		files = append(files, f.file(have[path], m.Files[have[path]]))
	}
	return files, write, nil
}

// brought finds what earlier copies under a key have brought, by the path at the source.
func brought(m *manifest, from actor.ID, key string) map[string]string {
	have := map[string]string{}
	if key == "" {
		return have
	}
	for local, e := range m.Files {
		if e.Copy != nil && e.Copy.Key == key && e.Copy.From == from {
			have[e.Copy.Path] = local
		}
	}
	return have
}
