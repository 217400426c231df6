package agent

import (
	"fmt"

	"github.com/troupehq/troupe/actor"
)

// UnpackRecord decodes a record. NewerVersion means that a newer program wrote it, in a way that this one must not read.
func UnpackRecord(data []byte) (*actor.Record, error) {
	var r actor.Record
	if err := Unpack(data, &r); err != nil {
		return nil, err
	}
	if r.V > actor.RecordVersion {
		return nil, &actor.Error{Kind: actor.NewerVersion, Err: fmt.Errorf("the record has version %d, this program reads up to %d", r.V, actor.RecordVersion)}
	}
	return &r, nil
}

// A Standing is what the last record of a thread says of it, without its birth.
type Standing struct {
	Lineage    actor.Lineage
	Terminated bool
	UpdatedAt  int64  // microseconds since 1970
	Birth      uint64 // the sequence of the first record; 0 when this is the first
}

// StandingOf reads the last record of a thread.
func StandingOf(last *actor.Record) (Standing, error) {
	var h head
	if err := Unpack(last.Head, &h); err != nil {
		return Standing{}, err
	}
	return Standing{h.Lineage, h.Terminated, h.UpdatedAt, h.Birth}, nil
}
