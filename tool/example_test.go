package tool_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/troupehq/troupe/tool"
)

// A registry of one Go function. A tool of an MCP server or a micro endpoint is called in the same way.
func ExampleRegistry() {
	type text struct {
		Text string `json:"text" jsonschema:"what to count"`
	}
	count, err := tool.Func(
		tool.Description{Name: "word_count", Description: "Counts the words of a text"},
		func(_ context.Context, in text) (map[string]int, error) {
			return map[string]int{"words": len(strings.Fields(in.Text))}, nil
		})
	if err != nil {
		fmt.Println(err)
		return
	}
	r, err := tool.New(tool.Config{Tools: []tool.Tool{count}})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go r.Serve(ctx) // for MCP servers; there are none here

	for _, arguments := range []string{`{"text":"to be or not"}`, `{"text":4}`} {
		result, err := r.Call(ctx, "word_count", tool.Call{ID: "call_1", Arguments: json.RawMessage(arguments)})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(result.IsError, string(result.Content))
	}
	// Output:
	// false {"words":4}
	// true {"code":"schema_violation","message":"the arguments do not fit the tool's schema: arguments.text: got number, want string","field":"arguments.text"}
}
