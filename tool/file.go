package tool

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/troupehq/troupe/actor"
)

// ReadFile reads the Endpoints, Servers, Remotes, Allow and MaxResult of a Config from a file, whose form docs/tools.md
// tells: YAML, or JSON if its name ends in .json. The errors are schema_violations that name the file,
// and the line where there is one; not_found if there is no file.
func ReadFile(path string) (Config, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		kind := actor.RuntimeError
		if errors.Is(err, os.ErrNotExist) {
			kind = actor.NotFound
		}
		return Config{}, &actor.Error{Op: "tool.ReadFile", Kind: kind, Err: err}
	}
	return Parse(path, data)
}

// Parse reads what [ReadFile] does from data; path is the file's name.
func Parse(path string, data []byte) (Config, error) {
	var f file
	var err error
	if filepath.Ext(path) == ".json" {
		err = decodeJSON(data, &f)
	} else {
		d := yaml.NewDecoder(bytes.NewReader(data))
		d.KnownFields(true)
		if err = d.Decode(&f); err == nil && !errors.Is(d.Decode(new(yaml.Node)), io.EOF) {
			err = errors.New("there is more than one document")
		}
		if errors.Is(err, io.EOF) {
			err = nil // an empty file
		}
	}
	if err != nil {
		return Config{}, refuse("tool.ReadFile", actor.SchemaViolation, "", "%s: %s", path, oneLine(err.Error()))
	}
	cfg := Config{Allow: f.Allow, MaxResult: f.MaxResultBytes}
	for i, e := range f.Tools {
		if err := e.into(&cfg); err != nil {
			var bad *actor.Error
			if errors.As(err, &bad) {
				bad.Field = fmt.Sprintf("tools[%d].%s", i, bad.Field)
			}
			return Config{}, refuse("tool.ReadFile", actor.SchemaViolation, "", "%s: %w", path, err)
		}
	}
	return cfg, nil
}

func decodeJSON(data []byte, f *file) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	err := d.Decode(f)
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		return fmt.Errorf("line %d: %w", 1+bytes.Count(data[:syntax.Offset], []byte("\n")), err)
	}
	if err == nil && !errors.Is(d.Decode(new(json.RawMessage)), io.EOF) {
		err = errors.New("there is more than one document")
	}
	return err
}

// A file is a configuration as people write it.
type file struct {
	Tools          []entry  `json:"tools" yaml:"tools"`
	Allow          []string `json:"allow" yaml:"allow"`
	MaxResultBytes int      `json:"maxResultBytes" yaml:"maxResultBytes"`
}

// An entry has a name, and is one of the three.
type entry struct {
	Name   string       `json:"name" yaml:"name"`
	Micro  *microEntry  `json:"micro" yaml:"micro"`
	MCP    *mcpEntry    `json:"mcp" yaml:"mcp"`
	Worker *workerEntry `json:"worker" yaml:"worker"`
}

type workerEntry struct {
	Description string         `json:"description" yaml:"description"`
	Schema      map[string]any `json:"schema" yaml:"schema"`
	Timeout     string         `json:"timeout" yaml:"timeout"`
}

type microEntry struct {
	Subject     string         `json:"subject" yaml:"subject"`
	Description string         `json:"description" yaml:"description"`
	Schema      map[string]any `json:"schema" yaml:"schema"`
	Timeout     string         `json:"timeout" yaml:"timeout"`
}

type mcpEntry struct {
	Command      []string          `json:"command" yaml:"command"`
	Env          []string          `json:"env" yaml:"env"`
	Dir          string            `json:"dir" yaml:"dir"`
	URL          string            `json:"url" yaml:"url"`
	Headers      map[string]string `json:"headers" yaml:"headers"`
	Timeout      string            `json:"timeout" yaml:"timeout"`
	StartTimeout string            `json:"startTimeout" yaml:"startTimeout"`
}

// into puts the entry into a Config.
func (e *entry) into(cfg *Config) error {
	const op = "tool.ReadFile"
	kinds := 0
	for _, is := range []bool{e.Micro != nil, e.MCP != nil, e.Worker != nil} {
		if is {
			kinds++
		}
	}
	if kinds != 1 {
		return refuse(op, actor.SchemaViolation, "micro", "a tool has one of micro, mcp and worker")
	}
	if m := e.Micro; m != nil {
		endpoint := Endpoint{Name: e.Name, Description: m.Description, Subject: m.Subject}
		var err error
		if endpoint.Timeout, err = duration("micro.timeout", m.Timeout); err == nil {
			endpoint.Schema, err = schemaOf("micro.schema", m.Schema)
		}
		cfg.Endpoints = append(cfg.Endpoints, endpoint)
		return err
	}
	if w := e.Worker; w != nil {
		remote := Remote{Name: e.Name, Description: w.Description}
		var err error
		if remote.Timeout, err = duration("worker.timeout", w.Timeout); err == nil {
			remote.Schema, err = schemaOf("worker.schema", w.Schema)
		}
		cfg.Remotes = append(cfg.Remotes, remote)
		return err
	}
	m := e.MCP
	s := Server{Name: e.Name, Command: m.Command, Env: m.Env, Dir: m.Dir, URL: m.URL, Headers: m.Headers}
	var err error
	if s.Timeout, err = duration("mcp.timeout", m.Timeout); err == nil {
		s.StartTimeout, err = duration("mcp.startTimeout", m.StartTimeout)
	}
	cfg.Servers = append(cfg.Servers, s)
	return err
}

// schemaOf is a schema as JSON; none is nil.
func schemaOf(field string, schema map[string]any) (json.RawMessage, error) {
	if schema == nil {
		return nil, nil
	}
	data, err := json.Marshal(schema)
	if err != nil {
		return nil, refuse("tool.ReadFile", actor.SchemaViolation, field, "%w", err)
	}
	return data, nil
}

// duration reads a time such as 30s or 2m; none is 0.
func duration(field, text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return 0, refuse("tool.ReadFile", actor.SchemaViolation, field, "%q is not a time such as 30s or 2m", text)
	}
	return d, nil
}
