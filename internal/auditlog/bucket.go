package auditlog

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"sync/atomic"

	"github.com/bloom-runtime/bloom/internal/objects"
)

// Bucket stores files in a bucket of object storage.
type Bucket struct {
	bucket *objects.Bucket
	exists atomic.Bool // the bucket was created or found
}

var _ Files = (*Bucket)(nil)

// NewBucket makes no request; the bucket is created with the first file.
func NewBucket(b *objects.Bucket) *Bucket { return &Bucket{bucket: b} }

func (b *Bucket) String() string { return "bucket " + b.bucket.Name() }

// Create writes an object if it does not exist, with a conditional write. Some storages ignore the
// condition, so Create checks for the object first; there, two writers can both write it only at the
// same moment, and they write the same content.
func (b *Bucket) Create(ctx context.Context, name string, content []byte) error {
	if !b.exists.Load() {
		if err := b.bucket.Ensure(ctx); err != nil {
			return err
		}
		b.exists.Store(true)
	}
	switch _, err := b.bucket.Stat(ctx, name); {
	case err == nil:
		return ErrExists
	case !errors.Is(err, objects.ErrNotFound):
		return err
	}
	_, err := b.bucket.Swap(ctx, name, content, "")
	if errors.Is(err, objects.ErrConflict) {
		return ErrExists
	}
	return err
}

// Open streams an object.
func (b *Bucket) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	r, _, err := b.bucket.Open(ctx, name)
	if errors.Is(err, objects.ErrNotFound) {
		err = errors.Join(fs.ErrNotExist, err)
	}
	return r, err
}

// List calls fn with the names of all files; fs.ErrNotExist if the bucket does not exist.
func (b *Bucket) List(ctx context.Context, fn func(string) error) error {
	for info, err := range b.bucket.List(ctx, Root+"/") {
		if errors.Is(err, objects.ErrNotFound) {
			return errors.Join(fs.ErrNotExist, err)
		}
		if err != nil {
			return err
		}
		if err := fn(info.Key); err != nil {
			return err
		}
	}
	return nil
}
