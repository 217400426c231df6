package store

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/troupehq/troupe/actor"
)

// A Ref names a blob. `nats object get <bucket> <name>` reads it.
type Ref struct {
	Bucket string `json:"bucket"`
	Name   string `json:"name"`   // "sha256-" and the digest in hex
	Digest string `json:"digest"` // "SHA-256=" and the digest in URL-safe base64
	Size   uint64 `json:"size"`   // in bytes
}

const (
	namePrefix   = "sha256-"
	digestPrefix = "SHA-256="
)

// refTo is the Ref of a content.
func refTo(bucket string, data []byte) Ref {
	sum := sha256.Sum256(data)
	return Ref{
		Bucket: bucket,
		Name:   namePrefix + hex.EncodeToString(sum[:]),
		Digest: digestPrefix + base64.URLEncoding.EncodeToString(sum[:]),
		Size:   uint64(len(data)),
	}
}

// refNamed is the Ref of a stored content, from what is kept of it where many are kept.
func refNamed(bucket, name string, size uint64) Ref {
	sum, _ := hex.DecodeString(strings.TrimPrefix(name, namePrefix)) // check refuses what is no name
	return Ref{Bucket: bucket, Name: name, Digest: digestPrefix + base64.URLEncoding.EncodeToString(sum), Size: size}
}

// check refuses a Ref that refTo cannot have made for bucket: it may come from outside.
func (r Ref) check(op, bucket string) error {
	bad := func(field, format string, args ...any) error {
		return &actor.Error{Op: op, Kind: actor.SchemaViolation, Field: field, Err: fmt.Errorf(format, args...)}
	}
	text, ok := strings.CutPrefix(r.Name, namePrefix)
	sum, err := hex.DecodeString(text)
	switch {
	case r.Bucket != bucket:
		return bad("bucket", "%q, want %q", r.Bucket, bucket)
	case !ok || err != nil || len(sum) != sha256.Size || text != strings.ToLower(text):
		return bad("name", "%q is not %q and 64 lower-case hex digits", r.Name, namePrefix)
	case r.Digest != digestPrefix+base64.URLEncoding.EncodeToString(sum):
		return bad("digest", "%q is not the digest that the name has", r.Digest)
	case r.Size > MaxBlobBytes:
		return bad("size", "%d bytes, a blob has at most %d", r.Size, MaxBlobBytes)
	}
	return nil
}
