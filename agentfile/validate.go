package agentfile

import (
	"fmt"
	"slices"
	"strings"

	"github.com/troupehq/troupe/agent"
)

// Validate gives all problems, those of reading the files and those of [agent.Validate], in the order of the files and
// of the lines in them. The definitions beside them stand elsewhere, such as in a store; what is wrong with them alone
// is not told. What only follows from another problem is left out.
func (f *Files) Validate(beside ...agent.Definition) []Problem {
	var known func(string) bool
	if f.torn {
		known = func(string) bool { return true }
	}
	all := slices.Clone(f.problems)
	for _, p := range agent.Validate(slices.Concat(f.Agents, beside), known) {
		if missing := f.torn && strings.HasSuffix(p.Path, ".prompt"); missing {
			continue
		}
		if located, ok := f.locate(p); ok && !f.follows(located) {
			all = append(all, located)
		}
	}
	slices.SortStableFunc(all, func(a, b Problem) int {
		if a.File != b.File {
			return f.rank(a.File) - f.rank(b.File)
		}
		return compare(a, b)
	})
	return slices.Compact(all)
}

// rank is the place of a file among the others; what could not be read at all comes first.
func (f *Files) rank(file string) int {
	if i, ok := f.order[file]; ok {
		return i
	}
	return -1
}

// locate finds where a problem stands: what it is about, or what that would stand in.
func (f *Files) locate(p agent.Problem) (Problem, bool) {
	var i int
	if _, err := fmt.Sscanf(p.Path, "agents[%d]", &i); err != nil || i >= len(f.origins) {
		return Problem{}, false // it is beside the files
	}
	_, path, _ := strings.Cut(p.Path, ".")
	rest := ""
	for {
		if at, ok := f.origins[i][path]; ok {
			p.Path = at.path + rest
			return Problem{at.file, at.line, at.column, p}, true
		}
		up := parent(path)
		rest = strings.TrimPrefix(path, up) + rest
		if up == "" && rest[0] != '[' && rest[0] != '.' {
			rest = "." + rest
		}
		path = up
	}
}

// follows reports whether a problem only comes of one of reading: of the same thing, of what it stands in, or of
// something that should have stood in it.
func (f *Files) follows(p Problem) bool {
	return slices.ContainsFunc(f.problems, func(r Problem) bool {
		return r.File == p.File && r.Path != "" && (r.Path == p.Path || parent(r.Path) == p.Path ||
			strings.HasPrefix(p.Path, r.Path+".") || strings.HasPrefix(p.Path, r.Path+"["))
	})
}

// parent is the path of what something stands in.
func parent(path string) string {
	return path[:max(0, strings.LastIndexAny(path, ".["))]
}
