package objects

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"

	"github.com/minio/minio-go/v7"
)

// Abilities is what a bucket was found to do.
type Abilities struct {
	Write            bool `json:"write"`
	ConditionalWrite bool `json:"conditional_write" doc:"A write on the condition that nothing, or nothing else, is there is refused where it does not hold"`
	Read             bool `json:"read"`
	Delete           bool `json:"delete"`
}

// Check makes the bucket when it is missing and tries what its users rely on. The
// error says what does not work; a storage that ignores conditions is none.
func (b *Bucket) Check(ctx context.Context) (can Abilities, err error) {
	if err := b.Ensure(ctx); err != nil {
		return can, err
	}
	key := "probe/" + rand.Text()
	first := []byte("first " + key)
	if _, err := b.Upload(ctx, key, bytes.NewReader(first), int64(len(first)), "text/plain"); err != nil {
		return can, fmt.Errorf("bucket %s cannot be written: %w", b.name, err)
	}
	can.Write = true
	// A probe that stays is a few bytes; the error of the deletion below counts.
	defer func() {
		if !can.Delete {
			_ = b.Remove(context.WithoutCancel(ctx), key)
		}
	}()
	if got, _, err := b.Read(ctx, key); err != nil || string(got) != string(first) {
		return can, fmt.Errorf("bucket %s cannot be read: %q: %w", b.name, got, err)
	}
	can.Read = true
	if can.ConditionalWrite, err = b.keepsConditions(ctx, key); err != nil {
		return can, fmt.Errorf("bucket %s cannot be written: %w", b.name, err)
	}
	if err := b.Remove(ctx, key); err != nil {
		return can, fmt.Errorf("bucket %s cannot be deleted from: %w", b.name, err)
	}
	if _, err := b.Stat(ctx, key); !errors.Is(err, ErrNotFound) {
		return can, fmt.Errorf("bucket %s: a deleted object is still there (%w)", b.name, err)
	}
	can.Delete = true
	return can, nil
}

// keepsConditions reports whether writes whose condition does not hold are refused.
func (b *Bucket) keepsConditions(ctx context.Context, taken string) (bool, error) {
	for _, etag := range []string{"", "0123456789abcdef0123456789abcdef"} {
		switch _, err := b.Swap(ctx, taken, []byte("second "+etag), etag); {
		case err == nil:
			return false, nil
		case errors.Is(err, ErrConflict):
		case refusal(err):
			return false, nil // it does not know conditions
		default:
			return false, err
		}
	}
	// And one whose condition holds is not.
	key := taken + "-new"
	_, err := b.Swap(ctx, key, []byte("new"), "")
	return err == nil, errors.Join(b.Remove(ctx, key))
}

// refusal reports whether the storage answered, and will not do what it was asked.
func refusal(err error) bool {
	status := minio.ToErrorResponse(err).StatusCode
	return status >= 400 && status < 500 || status == http.StatusNotImplemented
}

// Probe is Check for users who rely on conditions too: a storage that ignores them
// would let two writers win. It is refused here, once, and by name.
func (b *Bucket) Probe(ctx context.Context) error {
	can, err := b.Check(ctx)
	if err == nil && !can.ConditionalWrite {
		return fmt.Errorf("bucket %s: this object storage ignores conditions (If-None-Match, If-Match), so that two nodes could both win; use one that knows them", b.name)
	}
	return err
}
