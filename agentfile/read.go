package agentfile

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/agent"
)

// maxFileBytes is the largest file that is read.
const maxFileBytes = 4 << 20

// Files are definitions that were read together, and where each part of them stands.
type Files struct {
	Agents []agent.Definition // in the order of the files, their prompts in place

	origins  []map[string]place // of each agent
	prompts  map[string]prompt  // of all files, by name
	problems []Problem          // of reading
	order    map[string]int     // of the files
	torn     bool               // a file could not be read: nobody knows what it defines
}

// A prompt is one that agents may refer to.
type prompt struct {
	agent.Prompt
	places map[string]place
}

// Read reads files, and the files *.yaml, *.yml and *.json of directories in the order of their names; what begins with
// a dot and what lies deeper is passed over. What is wrong is told by [Files.Validate].
func Read(paths ...string) *Files {
	f := &Files{prompts: map[string]prompt{}, order: map[string]int{}}
	for _, path := range paths {
		f.path(filepath.Clean(path))
	}
	f.resolve()
	return f
}

// path reads a file or a directory.
func (f *Files) path(path string) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		f.unreadable(path, err)
	case info.IsDir():
		f.directory(path)
	default:
		f.file(path)
	}
}

func (f *Files) directory(path string) {
	entries, err := os.ReadDir(path) // in the order of their names
	if err != nil {
		f.unreadable(path, err)
		return
	}
	found := false
	for _, e := range entries {
		if name := e.Name(); !e.IsDir() && !strings.HasPrefix(name, ".") && format(name) != nil {
			found = true
			f.file(filepath.Join(path, name))
		}
	}
	if !found {
		f.unreadable(path, errors.New("there is no *.yaml, *.yml or *.json in this directory"))
	}
}

// format gives what takes a file of that name apart, or nil.
func format(name string) func([]byte) ([]*yaml.Node, error) {
	switch strings.ToLower(filepath.Ext(name)) {
	case ".yaml", ".yml":
		return yamlDocuments
	case ".json":
		return jsonDocuments
	}
	return nil
}

// unreadable reports that nothing is known of what a path defines.
func (f *Files) unreadable(path string, err error) {
	f.torn = true
	code := actor.SchemaViolation
	var at syntaxError
	switch s := (*syntaxError)(nil); {
	case errors.As(err, &s):
		code, at = actor.ParseError, *s
	case errors.Is(err, fs.ErrNotExist):
		code = actor.NotFound
	}
	var p *fs.PathError
	if errors.As(err, &p) {
		err = p.Err // the path is told anyway
	}
	f.report(Problem{path, at.line, at.column, agent.Problem{Code: code, Message: err.Error()}})
}

func (f *Files) report(p Problem) { f.problems = append(f.problems, p) }

// file reads a file, once.
func (f *Files) file(path string) {
	if _, read := f.order[path]; read {
		return
	}
	f.order[path] = len(f.order)
	data, err := content(path)
	if err != nil {
		f.unreadable(path, err)
		return
	}
	documents, err := format(path)(data)
	if err != nil {
		f.unreadable(path, err)
	}
	var at counts
	for _, d := range documents {
		f.document(path, d, &at)
	}
}

// content reads a file that may hold definitions.
func content(path string) ([]byte, error) {
	if format(path) == nil {
		return nil, errors.New("definitions stand in files *.yaml, *.yml or *.json")
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close() // it was only read
	data, err := io.ReadAll(io.LimitReader(file, maxFileBytes+1))
	switch {
	case err != nil:
		return nil, err
	case len(data) > maxFileBytes:
		return nil, fmt.Errorf("the file has more than %d bytes", maxFileBytes)
	case !utf8.Valid(data):
		return nil, errors.New("the file is not UTF-8")
	}
	return data, nil
}

// counts are of what was read from a file so far.
type counts struct{ agents, prompts int }

// A collection is a document with several things in it.
type collection struct {
	Agents  []agent.Definition `json:"agents"`
	Prompts []agent.Prompt     `json:"prompts"`
}

// document reads one agent, or a collection.
func (f *Files) document(file string, n *yaml.Node, at *counts) {
	r := f.reading(file, "")
	known := fields(reflect.TypeFor[collection]())
	several := false
	for i := 0; n.Kind == yaml.MappingNode && i < len(n.Content); i += 2 {
		_, ok := known[n.Content[i].Value]
		several = several || ok
	}
	switch {
	case n.ShortTag() == tagNull:
	case several:
		r.pairs(n, "", func(key string, k, v *yaml.Node) json.RawMessage {
			f.part(r, key, k, v, at)
			return nil
		})
	default:
		f.agent(file, n, at)
	}
}

// part reads what stands under one key of a collection.
func (f *Files) part(r *reading, key string, k, v *yaml.Node, at *counts) {
	read := map[string]func(string, *yaml.Node, *counts){"agents": f.agent, "prompts": f.prompt}[key]
	for v.Kind == yaml.AliasNode {
		v = v.Alias
	}
	switch {
	case read == nil:
		r.violation(key, k, "%s", unknownKey(key, fields(reflect.TypeFor[collection]())))
	case v.ShortTag() == tagNull:
	case v.Kind != yaml.SequenceNode:
		r.want(v, key, "a list")
	default:
		for _, item := range v.Content {
			read(r.file, item, at)
		}
	}
}

func (f *Files) reading(file, root string) *reading {
	return &reading{file: file, root: root, places: map[string]place{}, report: f.report}
}

func (f *Files) agent(file string, n *yaml.Node, at *counts) {
	r := f.reading(file, fmt.Sprintf("agents[%d]", at.agents))
	at.agents++
	var d agent.Definition
	if f.decode(r, n, &d) {
		f.Agents = append(f.Agents, d)
		f.origins = append(f.origins, r.places)
	}
}

func (f *Files) prompt(file string, n *yaml.Node, at *counts) {
	r := f.reading(file, fmt.Sprintf("prompts[%d]", at.prompts))
	at.prompts++
	p := prompt{places: r.places}
	if !f.decode(r, n, &p.Prompt) {
		return
	}
	_, taken := f.prompts[p.Name]
	switch {
	case p.Name == "":
		r.violation("name", n, "a prompt of its own needs a name")
	case p.IsReference():
		r.violation("", n, "the prompt %q has nothing but its name", p.Name)
	case taken:
		r.violation("name", n, "another prompt has the name %q", p.Name)
	default:
		f.prompts[p.Name] = p
	}
}

// decode reads a node into v and reports whether anything came of it.
func (f *Files) decode(r *reading, n *yaml.Node, v any) bool {
	if n.ShortTag() == tagNull {
		r.violation("", n, "there is nothing in this place of the list")
		return false
	}
	data := r.value(n, reflect.TypeOf(v), "", 0)
	if data == nil {
		return false
	}
	if err := json.Unmarshal(data, v); err != nil {
		r.violation("", n, "%v", err)
		return false
	}
	return true
}

// resolve puts prompts in the place of their names.
func (f *Files) resolve() {
	for i := range f.Agents {
		d := &f.Agents[i]
		for key, side := range map[string]*agent.Side{"sideA": d.SideA, "sideB": d.SideB} {
			if side == nil || side.Prompt == nil || !side.Prompt.IsReference() {
				continue
			}
			p, ok := f.prompts[side.Prompt.Name]
			if !ok {
				continue // which is told by Validate
			}
			whole := p.Prompt
			side.Prompt = &whole
			for path, at := range p.places {
				f.origins[i][strings.TrimSuffix(key+".prompt."+path, ".")] = at
			}
		}
	}
}
