package layers_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/troupehq/troupe/test/layers"
)

// Every import of every package outside its tests goes down.
func TestImportsGoDown(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..")
	seen := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		rel, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range file.Imports {
			seen++
			to, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			if why := layers.Check(layers.Module+"/"+filepath.ToSlash(rel), to); why != "" {
				t.Errorf("%s: %s", path, why)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if seen < 100 {
		t.Errorf("only %d imports were looked at: the test looks in the wrong place", seen)
	}
}

// The test of the test: what is wrong is found, and what is right is let through.
func TestCheck(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ from, to, want string }{
		{"bus", "host", "imports go down only"},
		{"actor", "agent", "imports go down only"},
		{"bus", "store", "the same floor"},
		{"client", "host", "the same floor"},
		{"gateway", "host", ""},
		{"client", "gateway", "imports go down only"},
		{"host", "test/natstest", "for tests only"},
		{"unknown", "actor", "has no floor"},
		{"host", "unknown", "has no floor"},
		{"host", "bus", ""},
		{"cmd/troupe/bench", "host", ""},
		{"cmd/troupe", "cmd/troupe/bench", ""},
		{"a2e", "actor", ""},
		{"actor", "a2e", "the same floor"},
		{"test/spec", "test/natstest", ""},
	} {
		expect(t, c.from, layers.Module+"/"+c.to, c.want)
	}
	expect(t, "host", "github.com/nats-io/nats.go", "only bus")
	expect(t, "gateway", "github.com/nats-io/nats.go", "only bus")
	expect(t, "agent", "github.com/nats-io/nats.go/jetstream", "only bus")
	expect(t, "store", "github.com/nats-io/nats.go/jetstream", "")
	expect(t, "actor", "github.com/rs/zerolog", "standard library only")
	expect(t, "host", "github.com/rs/zerolog", "")
	expect(t, "actor", "encoding/json", "")
}

func expect(t *testing.T, from, to, want string) {
	t.Helper()
	got := layers.Check(layers.Module+"/"+from, to)
	if want == "" && got != "" || want != "" && !strings.Contains(got, want) {
		t.Errorf("%s imports %s: the plan says %q, want something with %q", from, to, got, want)
	}
}
