package dispatch

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"

	"github.com/google/uuid"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/input"
)

// Submission is a task that somebody posts.
type Submission struct {
	Spec bloom.TaskSpec
	// Actor posts it. Keys of idempotency are unique in Scope, in Actor when empty.
	Actor, Scope string
	RequestID    string // of the request that posts it
}

// Submit queues a task. A spec is taken as validated in its form (the limits of
// bloom.TaskSpec); text in it is cleaned before anything is hashed or stored. A
// repeated idempotency key answers with the first task, also when the queue is full.
func (s *Service) Submit(ctx context.Context, sub Submission) (task bloom.Task, replayed bool, err error) {
	spec := sub.Spec
	input.Normalize(&spec) // two bodies that mean the same have the same hash
	id, err := uuid.NewV7()
	if err != nil {
		return bloom.Task{}, false, bloom.Internal(err)
	}
	t := bloom.NewTask{ID: id.String(), Spec: spec, BodyHash: specHash(spec), Actor: sub.Actor, RequestID: sub.RequestID}
	if spec.IdempotencyKey != "" {
		t.IdempotencyScope = cmp.Or(sub.Scope, sub.Actor)
	}
	leave, full, err := s.full.enter(ctx, sub.Actor)
	if err != nil {
		return bloom.Task{}, false, err
	}
	t.Full = full != nil
	added := unknown
	defer func() { leave(added) }()
	task, replayed, err = s.store.CreateTask(ctx, t)
	switch {
	case err == nil && !replayed:
		added = created
	case err == nil || !mayBe(err):
		added = nothing
	}
	if errors.Is(err, bloom.ErrQueueFull) {
		return bloom.Task{}, false, full
	}
	return task, replayed, err
}

// mayBe reports whether a task may have been created although its creation ended with an
// error: also a caller that has gone away may have left one.
func mayBe(err error) bool {
	kind := bloom.KindOf(err)
	return kind == bloom.KindInternal || kind == bloom.KindUnavailable
}

func specHash(spec bloom.TaskSpec) string {
	spec.IdempotencyKey = "" // it finds the body, it is not part of it
	return jsonHash(spec)
}

// jsonHash is the SHA-256 of v's encoding.
func jsonHash(v any) string {
	sum := sha256.Sum256(encodeJSON(v))
	return hex.EncodeToString(sum[:])
}

// encodeJSON is v as a line of JSON.
func encodeJSON(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(err) // plain structs of text and numbers always encode
	}
	return b.Bytes()
}
