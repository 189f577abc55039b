package httpapi

import (
	"context"
	"io"
	"net/http"
	"strconv"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/auth"
)

const (
	artifactsPath = runtimePath + "/artifacts"
	contextsPath  = runtimePath + "/contexts"
)

type artifactFilter struct {
	TextPaging
	TaskID string `query:"task_id"`
}

type auditFilter struct {
	Paging
	EntityID string `query:"entity_id"`
	Action   string `query:"action"`
}

func (s *Server) recordRoutes() {
	handle(s, route{method: http.MethodGet, path: artifactsPath, id: "list-artifacts", summary: "Artifacts, newest first", tag: "records", policy: auth.Read}, s.listArtifacts)
	handle(s, route{method: http.MethodGet, path: artifactsPath + "/{id}", id: "get-artifact", summary: "One artifact", tag: "records", policy: auth.Read},
		func(ctx context.Context, _ *call, in *pathID) (*reply[bloom.Artifact], error) {
			a, err := s.svc.Artifact(ctx, in.ID)
			return &reply[bloom.Artifact]{http.StatusOK, a}, err
		})
	handle(s, route{method: http.MethodGet, path: artifactsPath + "/{id}/content", id: "artifact-content", summary: "The bytes of an artifact", tag: "records", policy: auth.Read}, s.artifactContent)
	handle(s, route{method: http.MethodGet, path: contextsPath, id: "list-contexts", summary: "Contexts, the one used last first", tag: "records", policy: auth.Read}, s.listContexts)
	handle(s, route{method: http.MethodGet, path: contextsPath + "/{id}", id: "get-context", summary: "One context", tag: "records", policy: auth.Read},
		func(ctx context.Context, _ *call, in *pathID) (*reply[bloom.Context], error) {
			x, err := s.svc.Context(ctx, in.ID)
			return &reply[bloom.Context]{http.StatusOK, x}, err
		})
	handle(s, route{method: http.MethodGet, path: runtimePath + "/audit", id: "list-audit", summary: "Audit entries, newest first", tag: "records", policy: auth.Read}, s.listAudit)
}

func (s *Server) listArtifacts(ctx context.Context, c *call, in *artifactFilter) (*page[bloom.Artifact], error) {
	p, err := in.page()
	if err != nil {
		return nil, err
	}
	list, next, err := s.svc.Artifacts(ctx, bloom.ArtifactQuery{TaskID: bloom.CleanText(in.TaskID), Page: p})
	return paged(c, list, next), err
}

func (s *Server) listContexts(ctx context.Context, c *call, in *Paging) (*page[bloom.Context], error) {
	p, err := in.page()
	if err != nil {
		return nil, err
	}
	list, next, err := s.svc.Contexts(ctx, bloom.ContextQuery{Page: p})
	return paged(c, list, next), err
}

func (s *Server) listAudit(ctx context.Context, c *call, in *auditFilter) (*page[bloom.Audit], error) {
	p, err := in.page()
	if err != nil {
		return nil, err
	}
	list, next, err := s.svc.Audit(ctx, bloom.AuditQuery{EntityID: bloom.CleanText(in.EntityID), Action: bloom.CleanText(in.Action), Page: p})
	return paged(c, list, next), err
}

// artifactContent streams the bytes as an attachment: content that a model wrote
// must never run as a page of ours. When they turn out to be other bytes than
// were recorded the connection is cut, so that nobody takes them for whole.
func (s *Server) artifactContent(ctx context.Context, c *call, in *pathID) (*huma.StreamResponse, error) {
	a, content, err := s.svc.ArtifactContent(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	return &huma.StreamResponse{Body: func(hc huma.Context) {
		defer content.Close()
		_, w := humago.Unwrap(hc)
		h := w.Header()
		h.Set("Content-Type", mediaOf(a))
		h.Set("Content-Length", strconv.FormatInt(a.Size, 10))
		h.Set("Content-Disposition", `attachment; filename="`+a.ID+`.txt"`)
		h.Set("Content-Security-Policy", "default-src 'none'; sandbox")
		h.Set("ETag", `"`+a.SHA256+`"`)
		w.WriteHeader(http.StatusOK)
		if _, err := io.Copy(s.paced(w), content); err != nil {
			if ctx.Err() == nil {
				s.log.ErrorContext(ctx, "an artifact's content could not be sent whole", "request_id", c.id, "artifact_id", a.ID, "error", err)
			}
			panic(http.ErrAbortHandler)
		}
	}}, nil
}

func mediaOf(a bloom.Artifact) string {
	if a.MediaType == "" {
		return "application/octet-stream"
	}
	return a.MediaType
}
