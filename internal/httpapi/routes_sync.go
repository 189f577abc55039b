package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"unicode/utf8"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/audit"
	"github.com/bloom-runtime/bloom/internal/storable"
)

func (s *Server) syncRoutes() {
	handle(s, route{method: http.MethodGet, path: membridgePath + "/jobs/{id}", id: "membridge-job", small: true, summary: "One sync job with its output", tag: "membridge"},
		func(ctx context.Context, _ *call, in *jobInput) (*reply[json.RawMessage], error) {
			if in.ID == "." || in.ID == ".." || utf8.RuneCountInString(in.ID) > maxJob {
				return nil, bloom.NotFound("Job")
			}
			return s.ask(ctx, http.MethodGet, "/jobs/"+url.PathEscape(in.ID), nil)
		})
	order := func(kind, summary string) {
		handle(s, route{method: http.MethodPost, path: membridgePath + "/sync/" + kind, id: "membridge-" + kind, summary: summary, tag: "membridge", body: syncBody{}},
			func(ctx context.Context, c *call, _ *none) (*reply[json.RawMessage], error) {
				return s.sync(ctx, c, kind)
			})
	}
	order("push", "Have an agent push a project's memory to object storage")
	order("pull", "Have an agent pull a project's memory from object storage")
}

type jobInput struct {
	ID string `path:"id"`
}

// maxJob is the maximum length of a job's id in characters.
const maxJob = 64

// syncBody orders a sync job.
type syncBody struct {
	Project string `json:"project" minLength:"1" maxLength:"256" doc:"A project's name or canonical_id"`
	Agent   string `json:"agent" minLength:"1" maxLength:"128" doc:"The name of the agent that executes it"`
}

// sync forwards the order. Like a selection it is executed and audited whether or not
// the caller waits.
func (s *Server) sync(ctx context.Context, c *call, kind string) (*reply[json.RawMessage], error) {
	var b syncBody
	if err := s.decode(c, limitBody, &b); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), selectLimit)
	defer cancel()
	res, err := s.ask(ctx, http.MethodPost, "/sync/"+kind, storable.MustJSON(b))
	if err != nil && !unanswered(err) {
		return nil, err
	}
	var order struct {
		JobID string `json:"job_id"`
	}
	if err == nil {
		_ = json.Unmarshal(res.Body, &order) // membridge's shape was checked
	}
	detail := b.Agent + " is to " + kind + " the memory of " + b.Project
	if order.JobID == "" {
		detail = "Outcome unknown: membridge did not answer whether " + detail
	}
	if failed := s.auditOrder(ctx, c, audit.ActionSyncRequested, b.Project, detail, map[string]string{"kind": kind, "agent": b.Agent, "job_id": order.JobID}); failed != nil {
		return nil, errors.Join(err, failed)
	}
	return res, err
}
