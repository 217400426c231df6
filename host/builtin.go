package host

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/model"
	"github.com/troupehq/troupe/tool"
)

// A builtinTool works on a thread's own memory and files.
type builtinTool func(ctx context.Context, h *Host, id actor.ID, arguments []byte) (tool.Result, error)

// builtin are the tools of the runtime's own, beside those for subagents. A prompt names those that it wants; the
// capability memory turns on the first four.
var builtin = map[string]builtinTool{
	"memory_get":    taking(memoryGet),
	"memory_set":    taking(memorySet),
	"memory_delete": taking(memoryDelete),
	"memory_list":   taking(memoryList),
	"file_read":     taking(fileRead),
	"file_write":    taking(fileWrite),
	"file_list":     taking(fileList),
	"file_remove":   taking(fileRemove),
}

var builtinTools = func() []model.Tool {
	text := map[string]any{"type": "string"}
	key, path := map[string]any{"key": text}, map[string]any{"path": text}
	return []model.Tool{
		{Name: "memory_get", Description: "Reads a value from memory; null if there is none.", Schema: object(key, "key")},
		{Name: "memory_set", Description: "Puts a value into memory.", Schema: object(map[string]any{"key": text, "value": map[string]any{}}, "key", "value")},
		{Name: "memory_delete", Description: "Removes a value from memory.", Schema: object(key, "key")},
		{Name: "memory_list", Description: "Lists the keys in memory.", Schema: object(map[string]any{"prefix": text})},
		{Name: "file_read", Description: "Reads a text file of yours.", Schema: object(path, "path")},
		{Name: "file_write", Description: "Writes a text file of yours.", Schema: object(map[string]any{"path": text, "content": text}, "path", "content")},
		{Name: "file_list", Description: "Lists your files.", Schema: object(map[string]any{"prefix": text})},
		{Name: "file_remove", Description: "Removes a file of yours.", Schema: object(path, "path")},
	}
}()

// described gives the built-in tools whose names begin so.
func described(prefix string) []model.Tool {
	return slices.DeleteFunc(slices.Clone(builtinTools), func(t model.Tool) bool { return !strings.HasPrefix(t.Name, prefix) })
}

// taking reads a tool's arguments for f, strictly, and encodes what it gives.
func taking[In any](f func(ctx context.Context, h *Host, id actor.ID, in In) (any, error)) builtinTool {
	return func(ctx context.Context, h *Host, id actor.ID, arguments []byte) (r tool.Result, err error) {
		var in In
		if len(bytes.TrimSpace(arguments)) == 0 {
			arguments = []byte("{}")
		}
		d := json.NewDecoder(bytes.NewReader(arguments))
		d.DisallowUnknownFields()
		if err := d.Decode(&in); err != nil {
			return r, &actor.Error{Kind: actor.SchemaViolation, Field: "arguments", Err: err}
		}
		out, err := f(ctx, h, id, in)
		if err != nil {
			return r, err
		}
		r.Content, err = json.Marshal(out)
		return r, err
	}
}

type keyed struct {
	Key   string          `json:"key"`
	Value json.RawMessage `json:"value"`
}

type prefixed struct {
	Prefix string `json:"prefix"`
}

func memoryGet(ctx context.Context, h *Host, id actor.ID, in keyed) (any, error) {
	space, err := h.memoryOf(ctx, id)
	if err != nil {
		return nil, err
	}
	value, err := h.Store.Memory.Get(ctx, space, in.Key)
	if actor.KindOf(err) == actor.NotFound {
		return nil, nil
	}
	return value, err
}

func memorySet(ctx context.Context, h *Host, id actor.ID, in keyed) (any, error) {
	space, err := h.memoryOf(ctx, id)
	if err != nil {
		return nil, err
	}
	if in.Value == nil {
		in.Value = json.RawMessage("null")
	}
	return true, h.Store.Memory.Set(ctx, space, in.Key, in.Value)
}

func memoryDelete(ctx context.Context, h *Host, id actor.ID, in keyed) (any, error) {
	space, err := h.memoryOf(ctx, id)
	if err != nil {
		return nil, err
	}
	return true, h.Store.Memory.Delete(ctx, space, in.Key)
}

func memoryList(ctx context.Context, h *Host, id actor.ID, in prefixed) (any, error) {
	space, err := h.memoryOf(ctx, id)
	if err != nil {
		return nil, err
	}
	keys, err := h.Store.Memory.List(ctx, space, in.Prefix)
	if keys == nil {
		keys = []string{}
	}
	return keys, err
}

type filed struct {
	Path    string `json:"path"`
	Content string `json:"content"`
}

type fileInfo struct {
	Path string `json:"path"`
	Size uint64 `json:"size"`
	MIME string `json:"mime"`
}

func fileRead(ctx context.Context, h *Host, id actor.ID, in filed) (any, error) {
	data, f, err := h.Store.Files.Read(ctx, id, in.Path)
	if err != nil {
		return nil, err
	}
	if !utf8.Valid(data) {
		return map[string]any{"path": f.Path, "size": f.Blob.Size, "mime": f.MIME, "binary": true}, nil
	}
	return string(data), nil
}

func fileWrite(ctx context.Context, h *Host, id actor.ID, in filed) (any, error) {
	f, err := h.Store.Files.Write(ctx, id, in.Path, []byte(in.Content), "")
	return fileInfo{f.Path, f.Blob.Size, f.MIME}, err
}

func fileList(ctx context.Context, h *Host, id actor.ID, in prefixed) (any, error) {
	files, err := h.Store.Files.List(ctx, id, in.Prefix)
	infos := make([]fileInfo, len(files))
	for i, f := range files {
		infos[i] = fileInfo{f.Path, f.Blob.Size, f.MIME}
	}
	return infos, err
}

func fileRemove(ctx context.Context, h *Host, id actor.ID, in filed) (any, error) {
	return true, h.Store.Files.Remove(ctx, id, in.Path)
}
