package app

import (
	"context"
	"io"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/client"
	"github.com/bloom-runtime/bloom/internal/claude"
)

var _ claude.Uploads = (*transcripts)(nil)

// Upload uploads a file of the task's run to the runtime.
func (t *transcripts) Upload(ctx context.Context, task bloom.Task, path, tag string, content io.ReaderAt, size int64) (again bool, err error) {
	api, lease, err := t.of(task)
	if err != nil {
		return false, err
	}
	_, err = api.PutFile(ctx, task.ID, lease, client.File{Path: path, Tags: []string{tag}}, content, size)
	return client.Temporary(err), err
}
