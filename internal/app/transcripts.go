package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/client"
	"github.com/bloom-runtime/bloom/internal/claude"
)

// transcripts stores contexts' transcripts at the runtime, whose address may become known later.
type transcripts struct{ api atomic.Pointer[client.Client] }

var _ claude.Transcripts = (*transcripts)(nil)

var errNoRuntime = errors.New("the runtime's address is not known yet")

// of returns the client and the task's lease.
func (t *transcripts) of(task bloom.Task) (*client.Client, string, error) {
	api := t.api.Load()
	if api == nil || task.LeaseID == nil {
		return nil, "", errNoRuntime
	}
	return api, *task.LeaseID, nil
}

// unavailable marks an error after which the same call may succeed later.
func unavailable(err error) error {
	if client.Temporary(err) {
		return fmt.Errorf("%w: %w", claude.ErrUnavailable, err)
	}
	return err
}

// State returns which transcript the runtime has for the task's context.
func (t *transcripts) State(ctx context.Context, task bloom.Task) (bloom.TranscriptState, error) {
	api, lease, err := t.of(task)
	if err != nil {
		return bloom.TranscriptState{}, err
	}
	st, err := api.TranscriptState(ctx, task.ID, lease)
	return st, unavailable(err)
}

// Open streams the transcript.
func (t *transcripts) Open(ctx context.Context, task bloom.Task) (io.ReadCloser, error) {
	api, lease, err := t.of(task)
	if err != nil {
		return nil, err
	}
	content, err := api.Transcript(ctx, task.ID, lease)
	return content, unavailable(err)
}

// Ask asks people about a call.
func (t *transcripts) Ask(ctx context.Context, task bloom.Task, q bloom.Ask) (bloom.Approval, error) {
	api, _, err := t.of(task)
	if err != nil {
		return bloom.Approval{}, err
	}
	a, err := api.Ask(ctx, task.ID, q)
	return a, unavailable(err)
}

// Put uploads a part.
func (t *transcripts) Put(ctx context.Context, task bloom.Task, frame []byte) (bloom.TranscriptPart, error) {
	api, lease, err := t.of(task)
	if err != nil {
		return bloom.TranscriptPart{}, err
	}
	return api.PutTranscriptPart(ctx, task.ID, lease, frame)
}

// workspaces stores contexts' working folders at the runtime.
type workspaces struct{ *transcripts }

var _ claude.Workspaces = workspaces{}

// State returns which snapshot of the folder the runtime has for the task's context.
func (w workspaces) State(ctx context.Context, task bloom.Task) (bloom.WorkspaceState, error) {
	api, lease, err := w.of(task)
	if err != nil {
		return bloom.WorkspaceState{}, err
	}
	st, err := api.WorkspaceState(ctx, task.ID, lease)
	return st, unavailable(err)
}

// Open streams the folder.
func (w workspaces) Open(ctx context.Context, task bloom.Task) (io.ReadCloser, error) {
	api, lease, err := w.of(task)
	if err != nil {
		return nil, err
	}
	content, err := api.Workspace(ctx, task.ID, lease)
	return content, unavailable(err)
}

// Put uploads a part.
func (w workspaces) Put(ctx context.Context, task bloom.Task, frame []byte) (bloom.TranscriptPart, error) {
	api, lease, err := w.of(task)
	if err != nil {
		return bloom.TranscriptPart{}, err
	}
	return api.PutWorkspacePart(ctx, task.ID, lease, frame)
}

// Earlier returns the context's last completed tasks.
func (t *transcripts) Earlier(ctx context.Context, task bloom.Task) ([]bloom.Exchange, error) {
	api, lease, err := t.of(task)
	if err != nil {
		return nil, err
	}
	return api.Earlier(ctx, task.ID, lease)
}
