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

// Abilities lists what a bucket supports.
type Abilities struct {
	Write            bool `json:"write"`
	ConditionalWrite bool `json:"conditional_write" doc:"A conditional write is refused if its condition does not hold"`
	Read             bool `json:"read"`
	Delete           bool `json:"delete"`
}

// Check creates the bucket if it does not exist and tests the operations that its users rely on. The
// error says what does not work. It is no error if the storage ignores conditions.
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
	// A leftover probe object is harmless; the error of the deletion below is returned.
	defer func() {
		if !can.Delete {
			_ = b.Remove(context.WithoutCancel(ctx), key)
		}
	}()
	if got, _, err := b.Read(ctx, key); err != nil || string(got) != string(first) {
		return can, fmt.Errorf("bucket %s cannot be read: %q: %w", b.name, got, err)
	}
	can.Read = true
	if can.ConditionalWrite, err = b.supportsConditions(ctx, key); err != nil {
		return can, fmt.Errorf("bucket %s cannot be written: %w", b.name, err)
	}
	if err := b.Remove(ctx, key); err != nil {
		return can, fmt.Errorf("bucket %s cannot be deleted from: %w", b.name, err)
	}
	if _, err := b.Stat(ctx, key); !errors.Is(err, ErrNotFound) {
		return can, fmt.Errorf("bucket %s: a deleted object still exists (%w)", b.name, err)
	}
	can.Delete = true
	return can, nil
}

// supportsConditions reports whether writes whose condition does not hold are refused.
func (b *Bucket) supportsConditions(ctx context.Context, existing string) (bool, error) {
	for _, etag := range []string{"", "0123456789abcdef0123456789abcdef"} {
		switch _, err := b.Swap(ctx, existing, []byte("second "+etag), etag); {
		case err == nil:
			return false, nil
		case errors.Is(err, ErrConflict):
		case refusal(err):
			return false, nil // it does not support conditions
		default:
			return false, err
		}
	}
	// A write whose condition holds must succeed.
	key := existing + "-new"
	_, err := b.Swap(ctx, key, []byte("new"), "")
	return err == nil, errors.Join(b.Remove(ctx, key))
}

// refusal reports whether the storage answered and refused the request.
func refusal(err error) bool {
	status := minio.ToErrorResponse(err).StatusCode
	return status >= 400 && status < 500 || status == http.StatusNotImplemented
}

// Probe is Check for users that also rely on conditions: a storage that ignores them would let two
// writers succeed, so Probe refuses it.
func (b *Bucket) Probe(ctx context.Context) error {
	can, err := b.Check(ctx)
	if err == nil && !can.ConditionalWrite {
		return fmt.Errorf("bucket %s: this object storage ignores conditions (If-None-Match, If-Match), so two nodes could both write; use one that supports them", b.name)
	}
	return err
}
