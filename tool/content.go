package tool

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/troupehq/troupe/actor"
)

// resultOf is what an MCP server answered: its structured content where it has one, else its text as a string,
// else a list of its blocks. Binary blocks become files.
func resultOf(res *mcp.CallToolResult) (r Result, err error) {
	if res.NeedsInput() {
		return r, refuse("tool.Call", actor.RuntimeError, "", "the tool asks for input from a person, whom it can't have here")
	}
	r.IsError = res.IsError
	text, plain := textOf(res.Content)
	switch {
	case res.StructuredContent != nil && plain && same(text, res.StructuredContent):
		r.Content = json.RawMessage(text) // as it was written: with all digits of its numbers
	case res.StructuredContent != nil:
		r.Content, err = json.Marshal(res.StructuredContent)
	case plain:
		r.Content, err = json.Marshal(text)
	default:
		r.Content, err = r.blocks(res.Content)
	}
	return r, err
}

// textOf joins the texts of a content that has nothing else.
func textOf(content []mcp.Content) (text string, plain bool) {
	var texts []string
	for _, c := range content {
		t, ok := c.(*mcp.TextContent)
		if !ok {
			return "", false
		}
		texts = append(texts, t.Text)
	}
	return strings.Join(texts, "\n"), true
}

// same reports whether a text is the JSON of a value. Servers send both, for clients that read only one.
func same(text string, value any) bool {
	var read any
	return json.Unmarshal([]byte(text), &read) == nil && reflect.DeepEqual(read, value)
}

// A block is one part of a content that is not text alone.
type block struct {
	Type     string `json:"type"`
	Text     string `json:"text,omitempty"`
	URI      string `json:"uri,omitempty"`
	Name     string `json:"name,omitempty"`
	MIMEType string `json:"mimeType,omitempty"`
	File     string `json:"$file,omitempty"`
	Size     int    `json:"size,omitempty"`
}

// blocks lists the blocks of a content, and puts what is binary into r.Files.
func (r *Result) blocks(content []mcp.Content) (json.RawMessage, error) {
	list := make([]block, 0, len(content))
	for _, c := range content {
		var b block
		switch c := c.(type) {
		case *mcp.TextContent:
			b = block{Type: "text", Text: c.Text}
		case *mcp.ImageContent:
			b = r.file(block{Type: "image", MIMEType: c.MIMEType}, c.Data)
		case *mcp.AudioContent:
			b = r.file(block{Type: "audio", MIMEType: c.MIMEType}, c.Data)
		case *mcp.ResourceLink:
			b = block{Type: "resource_link", URI: c.URI, Name: c.Name, MIMEType: c.MIMEType}
		case *mcp.EmbeddedResource:
			if c.Resource == nil {
				return nil, errors.New("the tool answered with a resource that is not there")
			}
			b = block{Type: "resource", URI: c.Resource.URI, MIMEType: c.Resource.MIMEType, Text: c.Resource.Text}
			if c.Resource.Blob != nil {
				b = r.file(b, c.Resource.Blob)
			}
		default:
			return nil, fmt.Errorf("the tool answered with a block of type %T, which is not known here", c)
		}
		list = append(list, b)
	}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	err := e.Encode(list)
	return bytes.TrimSpace(out.Bytes()), err
}

// file puts data into r.Files, and its name into the block.
func (r *Result) file(b block, data []byte) block {
	b.File, b.Size = fmt.Sprintf("%s-%d%s", b.Type, len(r.Files)+1, extension(b.MIMEType)), len(data)
	r.Files = append(r.Files, File{Name: b.File, MIME: b.MIMEType, Data: data})
	return b
}

// extension is how the names of files of a few types end; those of others just end.
func extension(mime string) string {
	switch mime, _, _ := strings.Cut(mime, ";"); mime {
	case "image/png":
		return ".png"
	case "image/jpeg":
		return ".jpg"
	case "image/gif":
		return ".gif"
	case "image/webp":
		return ".webp"
	case "image/svg+xml":
		return ".svg"
	case "audio/wav":
		return ".wav"
	case "audio/mpeg":
		return ".mp3"
	case "application/pdf":
		return ".pdf"
	}
	return ""
}
