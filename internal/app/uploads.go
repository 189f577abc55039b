package app

import (
	"context"
	"errors"
	"io"
	"net/http"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/client"
	"github.com/bloom-runtime/bloom/internal/claude"
)

var (
	_ claude.Uploads     = (*transcripts)(nil)
	_ claude.Attachments = (*transcripts)(nil)
)

// OpenAttachment streams a file that the task was posted with. A server that cannot read it is not
// waited for.
func (t *transcripts) OpenAttachment(ctx context.Context, task bloom.Task, name string) (io.ReadCloser, error) {
	api, lease, err := t.of(task)
	if err != nil {
		return nil, err
	}
	content, err := api.Attachment(ctx, task.ID, name, lease)
	if refused := (*client.APIError)(nil); errors.As(err, &refused) && refused.Status == http.StatusInternalServerError {
		return nil, err
	}
	return content, unavailable(err)
}

// Upload uploads a file of the task's run to the runtime.
func (t *transcripts) Upload(ctx context.Context, task bloom.Task, path, tag string, content io.ReaderAt, size int64) (again bool, err error) {
	api, lease, err := t.of(task)
	if err != nil {
		return false, err
	}
	_, err = api.PutFile(ctx, task.ID, lease, client.File{Path: path, Tags: []string{tag}}, content, size)
	return client.Temporary(err), err
}
