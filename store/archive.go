package store

import (
	"context"
	"errors"
	"io"

	"github.com/nats-io/nats.go/jetstream"
)

// An Archive keeps what operators want to have of what is removed, in a NATS object store of their choice.
type Archive struct {
	objects jetstream.ObjectStore
}

// Archive gives an object store by its bucket's name, which any NATS client can read. One that does not exist is made,
// on as many servers as the blobs are kept on.
func (s *Store) Archive(ctx context.Context, bucket string) (*Archive, error) {
	const op = "store.Archive"
	ctx, cancel := within(ctx, callDeadline)
	defer cancel()
	js := s.Blobs.log.js
	objects, err := js.ObjectStore(ctx, bucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		var blobs jetstream.Stream
		if blobs, err = js.Stream(ctx, s.Blobs.log.name); err == nil {
			objects, err = js.CreateObjectStore(ctx, jetstream.ObjectStoreConfig{Bucket: bucket, Replicas: blobs.CachedInfo().Config.Replicas})
		}
	}
	if err != nil {
		return nil, fault(op, "", err)
	}
	return &Archive{objects}, nil
}

// Save keeps what write writes as an object, in place of one of that name, and returns once it was read back and found to
// be the same. Nobody sees a part of it.
func (a *Archive) Save(ctx context.Context, name string, write func(io.Writer) error) error {
	r, w := io.Pipe()
	go func() { w.CloseWithError(write(w)) }()
	_, err := a.objects.Put(ctx, jetstream.ObjectMeta{Name: name}, r)
	r.CloseWithError(err) // ends write, if Put did not read to the end
	if err == nil {
		err = a.check(ctx, name)
	}
	return fault("store.Archive.Save", "", err)
}

// check reads an object, whose digest the client library verifies.
func (a *Archive) check(ctx context.Context, name string) error {
	object, err := a.objects.Get(ctx, name)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, object)
	return errors.Join(err, object.Close())
}

// Has reports whether there is an object of a name.
func (a *Archive) Has(ctx context.Context, name string) (bool, error) {
	_, err := a.objects.GetInfo(ctx, name)
	if errors.Is(err, jetstream.ErrObjectNotFound) {
		return false, nil
	}
	return err == nil, fault("store.Archive.Has", "", err)
}
