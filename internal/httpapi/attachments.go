package httpapi

import (
	"context"
	"errors"
	"io"
	"math"
	"mime"
	"mime/multipart"
	"net/http"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/dispatch"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

const (
	formMedia = "multipart/form-data"
	// limitPart is the most of a part's header, and of what is around it, in bytes. net/textproto
	// would keep 10 MiB.
	limitPart = 16 << 10
)

type attachmentQuery struct {
	ID      string `path:"id"`
	Name    string `path:"name" doc:"The file's name"`
	LeaseID string `query:"lease_id" doc:"Of a worker: the lease under which it holds the task"`
}

func (s *Server) attachmentRoutes() {
	s.api.OpenAPI().Paths[tasksPath].Post.RequestBody.Content[formMedia] = &huma.MediaType{Schema: &huma.Schema{
		Type: huma.TypeObject, Required: []string{"task"}, Properties: map[string]*huma.Schema{
			"task": {Ref: refTo + "TaskSpec"},
			"file": {Type: huma.TypeArray, Items: &huma.Schema{Type: huma.TypeString, Format: "binary"}, Description: "Files, each with a filename; after the task"},
		},
	}, Example: map[string]any{
		"task": map[string]any{"context_id": "release-notes", "agent_slug": "writer", "prompt": "Summarize the attached report."}, "file": []string{"# Report\n"},
	}}
	handle(s, route{method: http.MethodGet, path: tasksPath + "/{id}/attachments/{name}", id: "task-attachment", summary: "The bytes of a file that was posted with a task", tag: "tasks"}, s.attachment)
}

func (s *Server) attachment(ctx context.Context, c *call, in *attachmentQuery) (*huma.StreamResponse, error) {
	if err := s.reserve(ctx, c, answerBytes); err != nil { // for the task
		return nil, err
	}
	read := s.store.Task
	if isWorker(c) {
		if err := s.mayUse(ctx, c, in.ID, in.LeaseID); err != nil {
			return nil, err
		}
		read = func(ctx context.Context, id string) (bloom.Task, error) { return s.svc.Held(ctx, id, in.LeaseID) }
	}
	task, err := read(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(task.Attachments, func(a bloom.Attachment) bool { return a.Name == in.Name })
	if i < 0 {
		return nil, bloom.NotFound("Attachment")
	}
	return s.sendArtifact(ctx, c, contentQuery{ID: task.Attachments[i].ArtifactID})
}

// formBoundary returns the boundary of a request's form, "" if its body is no form.
func formBoundary(r *http.Request) string {
	media, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || media != formMedia {
		return ""
	}
	return params["boundary"]
}

// readForm reads a task and the files after it, which it streams to the storage.
func (s *Server) readForm(ctx context.Context, c *call, boundary, key string, sub *dispatch.Submission) (err error) {
	if err := s.countStream(c); err != nil {
		return err
	}
	most := s.svc.MaxAttachments()
	limit := limitCreate + most + (contract.MaxAttachments+2)*limitPart
	if c.r.ContentLength > limit {
		return dispatch.ErrAttachmentsTooLarge(most)
	}
	paced := s.pacedBody(c, limit, s.streamTimeout, 0)
	defer func() {
		if err != nil {
			err = paced.cause(formError(err))
			s.svc.Discard(ctx, *sub)
		}
	}()
	body := &partReader{r: paced}
	form := multipart.NewReader(body, boundary)
	part, err := body.next(form)
	if err != nil || part.FormName() != "task" {
		return errors.Join(bloom.Invalid("The first part of the form must be the task, as JSON", bloom.FieldError{Field: "task", Message: "is missing"}), err)
	}
	whole := c.r
	c.r = whole.WithContext(whole.Context())
	c.r.Body, c.r.ContentLength, c.r.Header = io.NopCloser(part), -1, http.Header{"Content-Type": {"application/json"}}
	err = s.readTask(c, key, &sub.Spec)
	c.r = whole
	for err == nil {
		if part, err = body.next(form); errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = s.attach(ctx, sub, part)
		}
	}
	return err
}

func (s *Server) attach(ctx context.Context, sub *dispatch.Submission, part *multipart.Part) error {
	// part.FileName would turn a forged name into another one.
	_, params, err := mime.ParseMediaType(part.Header.Get("Content-Disposition"))
	if err != nil || part.FormName() != "file" {
		return bloom.Invalid("The parts of the form after the task must be files", bloom.FieldError{Field: "file", Message: "is the name of their parts"})
	}
	return s.svc.Attach(ctx, sub, params["filename"], part)
}

// formError describes what is wrong with a form without quoting it.
func formError(err error) error {
	if errors.As(err, new(*bloom.Error)) || errors.As(err, new(*Failure)) {
		return err
	}
	return &bloom.Error{Kind: bloom.KindInvalid, Code: bloom.CodeInvalid, Message: "The body is not a complete form", Cause: err}
}

// partReader bounds what is read between the parts of a form.
type partReader struct {
	r    io.Reader
	left int64
}

var errPart = bloom.Invalid("The header of a part of the form is too long")

func (p *partReader) Read(b []byte) (int, error) {
	if p.left <= 0 {
		return 0, errPart
	}
	n, err := p.r.Read(b[:min(int64(len(b)), p.left)])
	p.left -= int64(n)
	return n, err
}

// next returns the form's next part; io.EOF after the last.
func (p *partReader) next(form *multipart.Reader) (*multipart.Part, error) {
	p.left = limitPart
	part, err := form.NextRawPart()
	p.left = math.MaxInt64
	return part, err
}
