package model

import "context"

// echo ends at once with {"output": what it was told}: the instruction, or the text of the newest
// message in a session that a message opened. A message whose content is not a string is told as
// its JSON text.
type echo struct{}

func (echo) Step(ctx context.Context, r *Request) (*Response, error) {
	if err := interrupted(ctx, "model.Echo", r.Thread); err != nil {
		return nil, err
	}
	return output(told(r))
}

// output ends a session with {"output": text}.
func output(text string) (*Response, error) {
	v, err := encode(text)
	if err != nil {
		return nil, err
	}
	return &Response{Done: true, Result: Object(v)}, nil
}
