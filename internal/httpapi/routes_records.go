package httpapi

import (
	"context"
	"math"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/audit"
	"github.com/bloom-runtime/bloom/internal/storable"
)

const artifactsPath = runtimePath + "/artifacts"

type artifactFilter struct {
	TextPaging
	TaskID  string `query:"task_id"`
	ShortID string `query:"short_id" doc:"The last 8 characters of the id, as the web application shows it"`
	Type    string `query:"type" doc:"LLM_RESULT, FILE, ATTACHMENT, transcript, or what a completion named"`
}

type archiveFilter struct {
	TaskID string `query:"task_id"`
	Type   string `query:"type" doc:"LLM_RESULT, FILE, transcript, or what a completion named"`
}

type auditFilter struct {
	Paging
	EntityID string `query:"entity_id"`
	Action   string `query:"action"`
}

type chainRange struct {
	After number `query:"after" doc:"Only links after this seq (absent: 0)"`
	Limit number `query:"limit" doc:"Maximum number of links, 1 to 1000 (absent or 0: 100)"`
}

func (s *Server) recordRoutes() {
	handle(s, route{method: http.MethodGet, path: artifactsPath, id: "list-artifacts", summary: "Artifacts, newest first", tag: "records"}, s.listArtifacts)
	handle(s, route{method: http.MethodGet, path: artifactsPath + "/{id}", id: "get-artifact", summary: "One artifact", tag: "records"},
		func(ctx context.Context, _ *call, in *pathID) (*reply[bloom.Artifact], error) {
			a, err := s.store.Artifact(ctx, in.ID)
			return &reply[bloom.Artifact]{http.StatusOK, a}, err
		})
	handle(s, route{method: http.MethodGet, path: artifactsPath + "/{id}/content", id: "artifact-content", summary: "The bytes of an artifact", tag: "records"}, s.artifactContent)
	handle(s, route{method: http.MethodGet, path: artifactsPath + "/archive", id: "archive-artifacts", summary: "The newest 1000 artifacts as a ZIP archive", tag: "records"}, s.archive)
	handle(s, route{method: http.MethodPut, path: tasksPath + "/{id}/artifacts", id: "put-artifact", summary: "Upload a file of an attempt as an artifact", tag: "leases", raw: true}, s.putFile)
	handle(s, route{method: http.MethodPost, path: artifactsPath + "/move", id: "move-artifacts", summary: "Move all content to the object storage", tag: "records", answer: bloom.ContentLine{}, media: ndjson},
		func(ctx context.Context, c *call, _ *none) (*huma.StreamResponse, error) {
			return s.contentLines(ctx, c, func(ctx context.Context, line func(bloom.ContentLine)) error {
				return s.svc.Content.Move(ctx, c.caller.Name, line)
			})
		})
	handle(s, route{method: http.MethodPost, path: artifactsPath + "/verify", id: "verify-artifacts", summary: "Verify all stored content", tag: "records", answer: bloom.ContentLine{}, media: ndjson},
		func(ctx context.Context, c *call, _ *none) (*huma.StreamResponse, error) {
			return s.contentLines(ctx, c, s.svc.Content.Verify)
		})
	handle(s, route{method: http.MethodGet, path: runtimePath + "/audit", id: "list-audit", summary: "Audit entries, newest first", tag: "records"}, s.listAudit)
	handle(s, route{method: http.MethodGet, path: runtimePath + "/audit/chain", id: "audit-chain", summary: "The audit's hash chain, oldest first", tag: "records"},
		func(ctx context.Context, _ *call, in *chainRange) (*reply[bloom.ChainPart], error) {
			q := numbers{}
			after, limit := q.read("after", in.After, 0, math.MaxInt64), q.read("limit", in.Limit, 0, math.MaxInt32)
			if err := q.err(); err != nil {
				return nil, err
			}
			lag, err := s.store.AuditLag(ctx)
			if err != nil {
				return nil, err
			}
			head, prev, links, err := s.store.AuditLinks(ctx, after, bloom.Page{Limit: int(limit)}.Size())
			part := audit.PartOf(head, prev, links)
			part.Exported, part.Branch = lag.LastExported, lag.Branch
			return &reply[bloom.ChainPart]{http.StatusOK, part}, err
		})
}

func (s *Server) listArtifacts(ctx context.Context, c *call, in *artifactFilter) (*page[bloom.Artifact], error) {
	p, err := in.page()
	if err != nil {
		return nil, err
	}
	list, next, err := s.lists.Artifacts(ctx, bloom.ArtifactQuery{TaskID: in.TaskID, ShortID: in.ShortID, Type: in.Type, WithTask: true, Page: p})
	return paged(c, list, next), err
}

func (s *Server) listAudit(ctx context.Context, c *call, in *auditFilter) (*page[bloom.Audit], error) {
	p, err := in.page()
	if err != nil {
		return nil, err
	}
	list, next, err := s.lists.Audit(ctx, bloom.AuditQuery{EntityID: storable.Text(in.EntityID), Action: storable.Text(in.Action), Page: p})
	return paged(c, list, next), err
}

func mediaOf(a bloom.Artifact) string {
	if a.MediaType == "" {
		return "application/octet-stream"
	}
	return a.MediaType
}
