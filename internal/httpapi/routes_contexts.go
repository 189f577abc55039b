package httpapi

import (
	"context"
	"io"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/storable"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

const (
	contextsPath   = runtimePath + "/contexts"
	transcriptPath = tasksPath + "/{id}/transcript"
	workspacePath  = tasksPath + "/{id}/workspace"
)

// leaseOfTask names a task and the lease under which a worker acts.
type leaseOfTask struct {
	ID      string `path:"id"`
	LeaseID string `query:"lease_id" doc:"The lease under which the caller holds the task"`
}

// underLease checks that the caller may use the lease, then calls h with the task that it holds.
func underLease[O any](s *Server, h func(context.Context, *call, bloom.Task) (*O, error)) func(context.Context, *call, *leaseOfTask) (*O, error) {
	return func(ctx context.Context, c *call, in *leaseOfTask) (*O, error) {
		if err := s.mayUse(ctx, c, in.ID, in.LeaseID); err != nil {
			return nil, err
		}
		task, err := s.svc.Held(ctx, in.ID, in.LeaseID)
		if err != nil {
			return nil, err
		}
		return h(ctx, c, task)
	}
}

type partUpload struct {
	ID      string `path:"id"`
	LeaseID string `query:"lease_id" doc:"The lease under which the caller holds the task"`
	SHA256  string `query:"sha256" doc:"Of the body, in hex"`
}

// droppedContext is the response to forgetting a context.
type droppedContext struct {
	Forgotten bool   `json:"forgotten"`
	ID        string `json:"id"`
}

func (s *Server) contextRoutes() {
	handle(s, route{method: http.MethodGet, path: contextsPath, id: "list-contexts", summary: "Contexts, most recently used first", tag: "records"}, s.listContexts)
	handle(s, route{method: http.MethodGet, path: contextsPath + "/{id}", id: "get-context", summary: "One context", tag: "records"},
		func(ctx context.Context, _ *call, in *pathID) (*reply[bloom.Context], error) {
			x, err := s.store.Context(ctx, in.ID)
			return &reply[bloom.Context]{http.StatusOK, x}, err
		})
	handle(s, route{method: http.MethodPatch, path: contextsPath + "/{id}", id: "change-context", summary: "Name or pin a context", tag: "records", body: contract.ContextPatch{}},
		func(ctx context.Context, c *call, in *pathID) (*reply[bloom.Context], error) {
			var p contract.ContextPatch
			if err := s.decode(c, limitBody, &p); err != nil {
				return nil, err
			}
			if p.Name != nil {
				p.Name = new(strings.TrimSpace(storable.Text(*p.Name)))
			}
			x, err := s.store.ChangeContext(ctx, in.ID, p, c.caller.Name)
			return &reply[bloom.Context]{http.StatusOK, x}, err
		})
	handle(s, route{method: http.MethodDelete, path: contextsPath + "/{id}", id: "forget-context", summary: "Forget a context everywhere", tag: "records"},
		func(ctx context.Context, c *call, in *pathID) (*reply[droppedContext], error) {
			err := s.store.ForgetContext(ctx, in.ID, c.caller.Name)
			return &reply[droppedContext]{http.StatusOK, droppedContext{true, in.ID}}, err
		})
	handle(s, route{method: http.MethodGet, path: transcriptPath, id: "transcript-state", small: true, summary: "The state of the transcript of a held task's context", tag: "leases"},
		underLease(s, func(ctx context.Context, _ *call, task bloom.Task) (*reply[bloom.TranscriptState], error) {
			st, _, err := s.svc.Transcripts.Transcript(ctx, task, false)
			return &reply[bloom.TranscriptState]{http.StatusOK, st}, err
		}))
	handle(s, route{method: http.MethodGet, path: transcriptPath + "/content", id: "transcript-content", summary: "The transcript of a held task's context, compressed", tag: "leases"}, underLease(s, s.transcriptContent))
	handle(s, route{method: http.MethodPut, path: transcriptPath, id: "put-transcript-part", summary: "Upload what a turn added to its context's transcript", tag: "leases", raw: true}, s.putTranscriptPart)
	handle(s, route{method: http.MethodGet, path: workspacePath, id: "workspace-state", small: true, summary: "The state of the working folder of a held task's context", tag: "leases"},
		underLease(s, func(ctx context.Context, _ *call, task bloom.Task) (*reply[bloom.WorkspaceState], error) {
			st, _, err := s.svc.Transcripts.Workspace(ctx, task, false)
			return &reply[bloom.WorkspaceState]{http.StatusOK, st}, err
		}))
	handle(s, route{method: http.MethodGet, path: workspacePath + "/content", id: "workspace-content", summary: "The working folder of a held task's context, as a compressed tar archive", tag: "leases"},
		underLease(s, func(ctx context.Context, c *call, task bloom.Task) (*huma.StreamResponse, error) {
			if err := s.countStream(c); err != nil {
				return nil, err
			}
			st, content, err := s.svc.Transcripts.Workspace(ctx, task, true)
			return s.frames(ctx, c, task, st.SHA256, content), err
		}))
	handle(s, route{method: http.MethodPut, path: workspacePath, id: "put-workspace-part", summary: "Upload a part of what a task made of its context's working folder", tag: "leases", raw: true}, s.putTranscriptPart)
	handle(s, route{method: http.MethodGet, path: tasksPath + "/{id}/earlier", id: "earlier-tasks", summary: "The last completed tasks of a held task's context, in short", tag: "leases"},
		underLease(s, func(ctx context.Context, _ *call, task bloom.Task) (*reply[[]bloom.Exchange], error) {
			list, err := s.svc.Transcripts.Earlier(ctx, task.ContextID)
			return &reply[[]bloom.Exchange]{http.StatusOK, list}, err
		}))
}

type contextFilter struct {
	Paging
	ShortID string `query:"short_id" doc:"The last 8 characters of the id, as the web application shows it"`
	Text    string `query:"q" doc:"Part of the id or the name, in any case"`
	Pinned  bool   `query:"pinned" doc:"Only those that are pinned"`
}

func (s *Server) listContexts(ctx context.Context, c *call, in *contextFilter) (*page[bloom.Context], error) {
	p, err := in.page()
	if err != nil {
		return nil, err
	}
	list, next, err := s.store.Contexts(ctx, bloom.ContextQuery{ShortID: storable.Text(in.ShortID), Text: storable.Text(in.Text), Pinned: in.Pinned, Page: p})
	return paged(c, list, next), err
}

// putTranscriptPart streams the body to the blob store.
func (s *Server) putTranscriptPart(ctx context.Context, c *call, in *partUpload) (*reply[bloom.TranscriptPart], error) {
	size := c.r.ContentLength
	switch {
	case size > bloom.MaxTranscriptPart:
		return nil, errTooLarge(bloom.MaxTranscriptPart)
	case size < 0:
		return nil, bloom.Invalid("The request must state its length", bloom.FieldError{Field: "Content-Length", Message: "is missing"})
	}
	body := s.pacedBody(c, size, s.streamTimeout, bodyTime)
	if err := s.mayUse(ctx, c, in.ID, in.LeaseID); err != nil {
		return nil, err
	}
	task, err := s.svc.Held(ctx, in.ID, in.LeaseID)
	if err != nil {
		return nil, err
	}
	if err := s.countStream(c); err != nil {
		return nil, err
	}
	if err := s.svc.TakeUpload(ctx, in.ID, in.LeaseID, size); err != nil {
		return nil, err
	}
	part, err := s.svc.Transcripts.Put(ctx, task.ContextID, in.LeaseID, body, size, in.SHA256)
	err = body.cause(err)
	return &reply[bloom.TranscriptPart]{http.StatusOK, part}, err
}

// transcriptContent streams the parts as they were uploaded: each is a zstd frame,
// and so is their concatenation. If one cannot be read, the connection is cut.
func (s *Server) transcriptContent(ctx context.Context, c *call, task bloom.Task) (*huma.StreamResponse, error) {
	if err := s.countStream(c); err != nil {
		return nil, err
	}
	st, content, err := s.svc.Transcripts.Transcript(ctx, task, true)
	if err != nil {
		return nil, err
	}
	return s.frames(ctx, c, task, st.SHA256, content), nil
}

// frames streams content of a context, or returns nil if there is none.
func (s *Server) frames(ctx context.Context, c *call, task bloom.Task, sum string, content io.ReadCloser) *huma.StreamResponse {
	if content == nil {
		return nil
	}
	return &huma.StreamResponse{Body: func(hc huma.Context) {
		defer content.Close()
		_, w := humago.Unwrap(hc)
		w.Header().Set("Content-Type", "application/zstd")
		w.Header().Set("ETag", `"`+sum+`"`)
		w.WriteHeader(http.StatusOK)
		s.allowUntil(w, 0)
		if _, err := io.Copy(s.paced(w), content); err != nil {
			if ctx.Err() == nil {
				s.log.ErrorContext(ctx, "sending a context's content failed", "request_id", c.id, "task_id", task.ID, "error", err)
			}
			panic(http.ErrAbortHandler)
		}
	}}
}
