package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/troupehq/troupe/test/modeltest"
)

const canary = "sk-canary-0123456789abcdef"

// What a provider streams: a short answer.
const (
	claude = `event: message_start
data: {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"claude-haiku-4-5","content":[],"stop_reason":null,"usage":{"input_tokens":25,"output_tokens":1}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Bread is baked. Your key is ` + canary + `."}}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":15}}

event: message_stop
data: {"type":"message_stop"}

`
	gpt = `data: {"id":"1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"role":"assistant","content":"Bread is baked."},"finish_reason":null}]}

data: {"id":"1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}

data: [DONE]

`
)

func TestRunWithAProvider(t *testing.T) {
	t.Parallel()
	for model, c := range map[string]struct{ variable, path, stream string }{
		"anthropic/claude-haiku-4-5": {"ANTHROPIC", "", claude},
		"openai/qwen3":               {"OPENAI", "/v1", gpt},
	} {
		s := modeltest.Start(t, modeltest.Stream(c.stream))
		store := t.TempDir()
		cmd := command(t, "run", "Summarise this document", "--each", "testdata/bread.md", "--model", model, "--store", store)
		cmd.Env = append(cmd.Env, c.variable+"_API_KEY= "+canary+"\n", c.variable+"_BASE_URL="+s.URL+c.path)
		o := finish(t, cmd)
		if got := o.succeeds(t); !strings.Contains(got, "Bread is baked.") {
			t.Errorf("%s: stdout should be what the model said, is %q", model, got)
		}
		if got := s.Requests()[0]; got.Header.Get("Authorization") != "Bearer "+canary || !strings.Contains(string(got.Body), "Summarise this document") {
			t.Errorf("%s: the provider should be asked with the key and the prompt, was asked %s", model, got.Body)
		}
		if strings.Contains(o.out+o.err, canary) {
			t.Errorf("%s: the key was printed: %q %q", model, o.out, o.err)
		}
		wantNoCanary(t, store)
	}
}

// wantNoCanary looks for the key in every file of a store.
func wantNoCanary(t *testing.T, store string) {
	t.Helper()
	files := 0
	err := filepath.WalkDir(store, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if files++; bytes.Contains(data, []byte(canary)) {
			t.Errorf("the key is in the store: %s", path)
		}
		return err
	})
	if err != nil || files == 0 {
		t.Fatalf("the store could not be searched: %d files, %v", files, err)
	}
}

func TestProvidersRefuse(t *testing.T) {
	t.Parallel()
	args := []string{"run", "Summarise", "--each", "testdata/bread.md", "--model"}
	o := troupe(t, with(args, "anthropic/claude-haiku-4-5")...)
	if o.code != exitFailed || !strings.Contains(o.err, "set ANTHROPIC_API_KEY") {
		t.Errorf("without a key it should fail and say what to set, got %d: %s", o.code, o.err)
	}
	cmd := command(t, with(args, "openai/gpt-5-mini")...)
	cmd.Env = append(cmd.Env, "OPENAI_BASE_URL=nonsense")
	finish(t, cmd).fails(t, exitUsage, "OPENAI_BASE_URL")
	cmd = command(t, with(args, "openai/gpt-5-mini")...)
	cmd.Env = append(cmd.Env, "OPENAI_API_KEY="+canary+" x")
	if o := finish(t, cmd); strings.Contains(o.err, canary) {
		t.Errorf("the key was printed: %s", o.err)
	} else {
		o.fails(t, exitUsage, "OPENAI_API_KEY")
	}
	bad := write(t, t.TempDir(), "prices.json", `{"openai/x":{"input":1}}`)
	troupe(t, with(args, "builtin/echo", "--prices", bad)...).fails(t, exitUsage, "prices.openai/x", "output")
	troupe(t, with(args, "builtin/echo", "--prices", bad+".none")...).fails(t, exitUsage, "--prices")
}
