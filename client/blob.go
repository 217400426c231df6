package client

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/store"
)

// maxRefBytes is longer than any reference that a host writes.
const maxRefBytes = 1024

// inline gives the value that raw refers to, or raw itself when it is no reference of ours.
func (c *Client) inline(ctx context.Context, raw json.RawMessage) (json.RawMessage, error) {
	if len(raw) > maxRefBytes || !bytes.Contains(raw, []byte(`"$blob"`)) {
		return raw, nil
	}
	var ref struct {
		Blob *store.Ref `json:"$blob"`
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if d.Decode(&ref) != nil || ref.Blob == nil {
		return raw, nil
	}
	data, err := c.store.Blobs.Get(ctx, *ref.Blob)
	switch actor.KindOf(err) {
	case "":
		return data, nil
	case actor.SchemaViolation: // it only looks like one
		return raw, nil
	}
	return nil, &actor.Error{Op: "client: read a large result", Kind: actor.KindOf(err), Err: err}
}

// inlineAwait puts values in the place of the references in an answer.
func (c *Client) inlineAwait(ctx context.Context, resp *a2e.AwaitResp) (err error) {
	if resp.Error == "" {
		resp.Result, err = c.inline(ctx, resp.Result)
		return err
	}
	var failed struct {
		Error   string          `json:"error"`
		Partial json.RawMessage `json:"partial,omitempty"`
	}
	if json.Unmarshal(resp.Result, &failed) != nil || failed.Partial == nil {
		return nil
	}
	partial, err := c.inline(ctx, failed.Partial)
	if err != nil || bytes.Equal(partial, failed.Partial) {
		return err
	}
	failed.Partial = partial
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(failed); err != nil {
		return &actor.Error{Op: "client: read a large result", Kind: actor.RuntimeError, Err: err}
	}
	resp.Result = bytes.TrimSpace(b.Bytes())
	return nil
}
