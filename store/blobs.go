package store

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/troupehq/troupe/actor"
)

const (
	// MaxBlobBytes is the largest blob.
	MaxBlobBytes = 64 << 20

	chunkBytes     = 128 << 10
	chunksInFlight = 32

	// BlobGrace is for how long a blob is kept that nothing names: who stores one names it only then.
	BlobGrace = 24 * time.Hour
)

// Blobs holds large values by the digest of their content. They are objects of a NATS object store
// and any NATS client can read them. Their chunks are written and read here rather than by the
// client library, whose retries may store one chunk behind the next and so spoil the blob for good,
// and whose reader stands still for many seconds when its server dies.
type Blobs struct {
	log    stream
	bucket string
	now    func() time.Time
}

func newBlobs(l *link, bucket string, now func() time.Time) *Blobs {
	return &Blobs{log: stream{l, "OBJ_" + bucket}, bucket: bucket, now: now}
}

// The subjects of an object store, as every NATS client spells them.
func (b *Blobs) chunkSubject(id string) string { return "$O." + b.bucket + ".C." + id }
func (b *Blobs) metaSubject(name string) string {
	return "$O." + b.bucket + ".M." + base64.URLEncoding.EncodeToString([]byte(name))
}

// Put stores data, of at most [MaxBlobBytes], and returns once it is stored; then it is kept for at least half of
// [BlobGrace], named or not. What is stored already is not sent again; of two that put the same content at the same time
// one takes back its chunks.
func (b *Blobs) Put(ctx context.Context, data []byte) (Ref, error) {
	const op = "store.Blobs.Put"
	if len(data) > MaxBlobBytes {
		return Ref{}, &actor.Error{Op: op, Kind: actor.TooLarge,
			Err: fmt.Errorf("%d bytes, a blob has at most %d", len(data), MaxBlobBytes)}
	}
	ctx, cancel := within(ctx, scanDeadline)
	defer cancel()
	ref := refTo(b.bucket, data)
	if err := b.put(ctx, ref, data); err != nil {
		return Ref{}, fault(op, "", fmt.Errorf("%s: %w", ref.Name, err))
	}
	return ref, nil
}

// put sends the chunks unless the blob is there, and announces it unless somebody else does first.
// Chunks whose announcement may still arrive are left alone.
func (b *Blobs) put(ctx context.Context, ref Ref, data []byte) error {
	sent := "" // the id of our chunks
	for {
		info, m, err := b.info(ctx, ref.Name)
		switch {
		case err == nil && info.Digest == ref.Digest && info.Size == ref.Size:
			if sent != "" {
				b.takeBack(ctx, sent)
				sent = ""
			}
			if b.now().Sub(m.Time) < BlobGrace/2 {
				return nil
			}
			if err := b.announce(ctx, ref, info.NUID, m.Seq); !conflict(err) { // so that it is young again
				return err
			}
			continue
		case err != nil && !errors.Is(err, errNoMessage):
			return err
		}
		if sent == "" {
			sent = nuid.Next()
			if err := b.send(ctx, sent, data); err != nil {
				b.takeBack(ctx, sent)
				return err
			}
		}
		if err := b.announce(ctx, ref, sent, m.Seq); !conflict(err) {
			return err
		}
		pause(ctx, retryPause)
	}
}

// info reads what the store says of an object, with the message that says so: an announcement must expect its sequence.
func (b *Blobs) info(ctx context.Context, name string) (jetstream.ObjectInfo, stored, error) {
	var info jetstream.ObjectInfo
	m, err := b.log.get(ctx, query{Last: b.metaSubject(name)})
	if err != nil {
		return info, m, err
	}
	if err := json.Unmarshal(m.Data, &info); err != nil || info.Deleted {
		return jetstream.ObjectInfo{}, m, errNoMessage
	}
	return info, m, nil
}

// find gives the Ref of a blob that is stored under a name.
func (b *Blobs) find(ctx context.Context, name string) (Ref, error) {
	ref := refNamed(b.bucket, name, 0)
	if err := ref.check("", b.bucket); err != nil {
		return Ref{}, err
	}
	info, _, err := b.info(ctx, name)
	if err != nil {
		return Ref{}, fmt.Errorf("%s: %w", name, err)
	}
	ref.Size = info.Size
	return ref, nil
}

// send stores the chunks under an id of their own, in order, with a bounded number in flight. It
// returns when each is stored or has failed.
func (b *Blobs) send(ctx context.Context, id string, data []byte) error {
	var failed error
	var flying []actor.Ack
	land := func(n int) {
		for _, a := range flying[:n] {
			if _, err := a.Wait(ctx); err != nil && failed == nil {
				failed = err
			}
		}
		flying = flying[n:]
	}
	for len(data) > 0 && failed == nil {
		n := min(len(data), chunkBytes)
		flying = append(flying, b.log.publish("", "", &nats.Msg{Subject: b.chunkSubject(id), Data: data[:n]}))
		data = data[n:]
		if len(flying) == chunksInFlight {
			land(1)
		}
	}
	land(len(flying))
	return failed
}

// announce makes the chunks an object. It is the commit: nobody sees the object before.
func (b *Blobs) announce(ctx context.Context, ref Ref, id string, rev uint64) error {
	data, err := json.Marshal(jetstream.ObjectInfo{
		ObjectMeta: jetstream.ObjectMeta{Name: ref.Name, Opts: &jetstream.ObjectMetaOptions{ChunkSize: chunkBytes}},
		Bucket:     ref.Bucket,
		NUID:       id,
		Size:       ref.Size,
		Chunks:     uint32((ref.Size + chunkBytes - 1) / chunkBytes),
		Digest:     ref.Digest,
	})
	if err != nil {
		return err
	}
	header := expect(rev)
	header.Set(jetstream.MsgRollup, jetstream.MsgRollupSubject)
	_, err = b.log.publish("", "", &nats.Msg{Subject: b.metaSubject(ref.Name), Header: header, Data: data}).Wait(ctx)
	return err
}

// takeBack removes chunks that did not become an object. Those that it cannot remove are never read.
func (b *Blobs) takeBack(ctx context.Context, id string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	if s, err := b.log.js.Stream(ctx, b.log.name); err == nil {
		_ = s.Purge(ctx, jetstream.WithPurgeSubject(b.chunkSubject(id)))
	}
}

// Stat says whether a blob is stored under what ref names, without reading it. The Kinds are those of Get.
func (b *Blobs) Stat(ctx context.Context, ref Ref) error {
	const op = "store.Blobs.Stat"
	if err := ref.check(op, b.bucket); err != nil {
		return err
	}
	ctx, cancel := within(ctx, callDeadline)
	defer cancel()
	info, _, err := b.info(ctx, ref.Name)
	if err == nil && info.Size != ref.Size {
		return &actor.Error{Op: op, Kind: actor.SchemaViolation, Field: "size", Err: fmt.Errorf("%s has %d bytes, not %d", ref.Name, info.Size, ref.Size)}
	}
	if err != nil {
		return fault(op, "", fmt.Errorf("%s: %w", ref.Name, err))
	}
	return nil
}

// Get reads a blob and verifies it. NotFound means that it is not stored; RuntimeError that what is
// stored is not what ref names. A Ref of another bucket, or one that contradicts itself, is a
// SchemaViolation.
func (b *Blobs) Get(ctx context.Context, ref Ref) ([]byte, error) {
	const op = "store.Blobs.Get"
	if err := ref.check(op, b.bucket); err != nil {
		return nil, err
	}
	ctx, cancel := within(ctx, scanDeadline)
	defer cancel()
	info, _, err := b.info(ctx, ref.Name)
	if err == nil {
		err = validKey(op, info.NUID)
	}
	if err != nil {
		return nil, fault(op, "", fmt.Errorf("%s: %w", ref.Name, err))
	}
	data := make([]byte, 0, ref.Size)
	if ref.Size > 0 {
		sc := scan{b.chunkSubject(info.NUID), 1, everything, largeMessages}
		err = b.log.scan(ctx, sc, func(m stored) error {
			data = append(data, m.Data...)
			if uint64(len(data)) >= ref.Size {
				return errDone
			}
			return nil
		})
	}
	if err == nil && refTo(b.bucket, data) != ref {
		err = fmt.Errorf("the %d bytes that are stored have another digest", len(data))
	}
	if err != nil {
		return nil, fault(op, "", fmt.Errorf("%s: %w", ref.Name, err))
	}
	return data, nil
}
