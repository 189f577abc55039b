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
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

// Submission is a task to create.
type Submission struct {
	Spec bloom.TaskSpec
	// Actor creates it. Idempotency keys are unique within Scope, or within Actor if that
	// is empty.
	Actor, Scope string
	RequestID    string // of the creating request

	id          string // of the task, once files are attached
	attachments []contract.NewArtifact
}

// Submit queues a task. The caller has validated the spec (the limits of
// bloom.TaskSpec); Submit normalises its texts before it hashes or stores them. A
// repeated idempotency key returns the first task, even if the queue is full.
func (s *Service) Submit(ctx context.Context, sub Submission) (task bloom.Task, replayed bool, err error) {
	spec := sub.Spec
	input.Normalize(&spec) // equivalent bodies get the same hash
	if spec.DelayMS > 0 {
		spec.RunAt = 0 // for servers that know no delay_ms; it differs whenever the caller repeats the request
	}
	if sub.id == "" {
		id, err := uuid.NewV7()
		if err != nil {
			return bloom.Task{}, false, bloom.Internal(err)
		}
		sub.id = id.String()
	}
	t := contract.NewTask{ID: sub.id, Spec: spec, BodyHash: specHash(spec, sub.attached()), Actor: sub.Actor, RequestID: sub.RequestID, Attachments: sub.attachments}
	if spec.IdempotencyKey != "" {
		t.IdempotencyScope = cmp.Or(sub.Scope, sub.Actor)
	}
	leave, full, err := s.full.enter(ctx, sub.Actor)
	if err != nil {
		s.Discard(ctx, sub)
		return bloom.Task{}, false, err
	}
	t.Full = full != nil
	added := unknown
	defer func() {
		leave(added)
		if added == nothing && task.ID != sub.id { // the store may have repeated its own commit
			s.Discard(ctx, sub)
		}
	}()
	task, replayed, err = s.store.CreateTask(ctx, t)
	switch {
	case err == nil && !replayed:
		added = created
	case err == nil || !outcomeUnknown(err):
		added = nothing
	}
	if errors.Is(err, bloom.ErrQueueFull) {
		return bloom.Task{}, false, full
	}
	return task, replayed, err
}

// outcomeUnknown reports whether a task may have been created although its creation ended with an
// error: a caller that has disconnected may have left one, too.
func outcomeUnknown(err error) bool {
	kind := bloom.KindOf(err)
	return kind == bloom.KindInternal || kind == bloom.KindUnavailable
}

func specHash(spec bloom.TaskSpec, attached []bloom.Attachment) string {
	spec.IdempotencyKey = "" // not part of the body
	if len(attached) > 0 {
		return jsonHash([]any{spec, attached})
	}
	return jsonHash(spec)
}

// jsonHash returns the SHA-256 of v's encoding.
func jsonHash(v any) string {
	sum := sha256.Sum256(encodeJSON(v))
	return hex.EncodeToString(sum[:])
}

// encodeJSON returns v as a line of JSON.
func encodeJSON(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(err) // plain structs of text and numbers always encode
	}
	return b.Bytes()
}
