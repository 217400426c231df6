package tool_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/tool"
)

const asYAML = `
tools:
  - name: weather
    micro:
      subject: weather.now
      description: Tells the weather of a city
      timeout: 5s
      schema:
        type: object
        properties:
          city: {type: string, maxLength: 1000}
        required: [city]
  - name: files
    mcp:
      command: [mcp-files, --root, /srv/docs]
      env: [PATH, LANG=C.UTF-8]
      dir: /srv
      timeout: 2m
      startTimeout: 90s
  - name: search
    mcp:
      url: https://search.example.com/mcp
      headers: {Authorization: "Bearer ${SEARCH_TOKEN}"}
allow: [weather, "files_*"]
maxResultBytes: 1000000
`

const asJSON = `{
	"tools": [
		{"name": "weather", "micro": {"subject": "weather.now", "description": "Tells the weather of a city", "timeout": "5s",
			"schema": {"type": "object", "properties": {"city": {"type": "string", "maxLength": 1000}}, "required": ["city"]}}},
		{"name": "files", "mcp": {"command": ["mcp-files", "--root", "/srv/docs"], "env": ["PATH", "LANG=C.UTF-8"], "dir": "/srv", "timeout": "2m", "startTimeout": "90s"}},
		{"name": "search", "mcp": {"url": "https://search.example.com/mcp", "headers": {"Authorization": "Bearer ${SEARCH_TOKEN}"}}}
	],
	"allow": ["weather", "files_*"],
	"maxResultBytes": 1000000
}`

func TestReadFile(t *testing.T) {
	t.Parallel()
	want := tool.Config{
		Endpoints: []tool.Endpoint{{
			Name: "weather", Subject: "weather.now", Description: "Tells the weather of a city", Timeout: 5 * time.Second,
			Schema: json.RawMessage(`{"properties":{"city":{"maxLength":1000,"type":"string"}},"required":["city"],"type":"object"}`),
		}},
		Servers: []tool.Server{
			{Name: "files", Command: []string{"mcp-files", "--root", "/srv/docs"}, Env: []string{"PATH", "LANG=C.UTF-8"}, Dir: "/srv", Timeout: 2 * time.Minute, StartTimeout: 90 * time.Second},
			{Name: "search", URL: "https://search.example.com/mcp", Headers: map[string]string{"Authorization": "Bearer ${SEARCH_TOKEN}"}},
		},
		Allow:     []string{"weather", "files_*"},
		MaxResult: 1000000,
	}
	for name, text := range map[string]string{"tools.yaml": asYAML, "tools.json": asJSON} {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := tool.ReadFile(path)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s reads as\n%+v, %v, want\n%+v", name, got, err, want)
		}
	}
	if got, err := tool.Parse("empty.yaml", nil); err != nil || got.Allow != nil {
		t.Errorf("an empty file is %+v, %v", got, err)
	}
	if got, err := tool.Parse("none.yaml", []byte("allow: []")); err != nil || got.Allow == nil {
		t.Errorf("an empty allow-list reads as %+v, %v: it allows nothing, and none allows all", got, err)
	}
}

// The file that the documentation shows is one that works.
func TestDocumentedFile(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "docs", "tools.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(page), "```yaml\n")
	text, _, _ = strings.Cut(text, "```")
	cfg, err := tool.Parse("tools.yaml", []byte(text))
	if err != nil || len(cfg.Endpoints) != 1 || len(cfg.Servers) != 2 || cfg.MaxResult != tool.DefaultMaxResult {
		t.Fatalf("it reads as %+v, %v", cfg, err)
	}
	cfg.Requester, cfg.LookupEnv = nobody{}, func(string) (string, bool) { return "x", true }
	registry(t, cfg)
}

func TestReadFileRefuses(t *testing.T) {
	t.Parallel()
	for text, words := range map[string][]string{
		"tools:\n  - name: a\n    mirco: {}":             {"a.yaml", "line 3", "mirco"},
		"tools:\n  - name: a":                            {"tools[0].micro", "one of micro, mcp and worker"},
		"tools:\n  - {name: a, micro: {}, mcp: {}}":      {"tools[0].micro", "one of micro, mcp and worker"},
		"tools:\n  - {name: a, micro: {timeout: 5}}":     {"tools[0].micro.timeout", `"5"`},
		"tools:\n  - {name: a, mcp: {startTimeout: 0s}}": {"tools[0].mcp.startTimeout"},
		"tools: {}":                 {"line 1"},
		"tools: [":                  {"a.yaml"},
		"allow: []\n---\nallow: []": {"more than one"},
		"tools:\n  - {name: a, micro: {schema: {\"x\": .nan}}}":  {"tools[0].micro.schema"},
		"tools:\n  - {name: a, micro: {schema: {1: 2, [a]: 3}}}": {"a.yaml"},
	} {
		_, err := tool.Parse("a.yaml", []byte(text))
		wantKind(t, text, err, actor.SchemaViolation, words...)
	}
	for text, words := range map[string][]string{
		"{\n\"tools\": [}": {"a.json", "line 2"},
		`{"tool": []}`:     {`"tool"`},
		`{} {}`:            {"more than one"},
	} {
		_, err := tool.Parse("a.json", []byte(text))
		wantKind(t, text, err, actor.SchemaViolation, words...)
	}
	_, err := tool.ReadFile(filepath.Join(t.TempDir(), "none.yaml"))
	wantKind(t, "no file", err, actor.NotFound, "none.yaml")
}
