package auditlog

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"sync/atomic"

	"github.com/bloom-runtime/bloom/internal/objects"
)

// Bucket keeps files in a bucket of object storage.
type Bucket struct {
	bucket *objects.Bucket
	made   atomic.Bool
}

var _ Files = (*Bucket)(nil)

// NewBucket makes no request yet; the bucket is made with the first file.
func NewBucket(b *objects.Bucket) *Bucket { return &Bucket{bucket: b} }

func (b *Bucket) String() string { return "bucket " + b.bucket.Name() }

// Create writes an object that is not there: on the condition that it still is not,
// which a storage that knows no conditions ignores. It is looked for before, so that
// there only two writers at the same moment can both write it, and those write the same.
func (b *Bucket) Create(ctx context.Context, name string, content []byte) error {
	if !b.made.Load() {
		if err := b.bucket.Ensure(ctx); err != nil {
			return err
		}
		b.made.Store(true)
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

// List calls fn with the names of all files; fs.ErrNotExist where the bucket is missing.
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
