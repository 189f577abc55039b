package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/audit"
	"github.com/bloom-runtime/bloom/internal/input"
	"github.com/bloom-runtime/bloom/internal/storable"
)

type projectInput struct {
	CID string `path:"cid"`
}

func (s *Server) proxyRoutes() {
	// The forwarded path is built from the route and its parameters, never from the
	// request's path: that can be escaped in several ways, and the request carries our key.
	get := func(path, id, summary string) {
		handle(s, route{method: http.MethodGet, path: membridgePath + path, id: id, small: true, summary: summary, tag: "membridge"},
			func(ctx context.Context, _ *call, _ *none) (*reply[json.RawMessage], error) {
				return s.ask(ctx, http.MethodGet, path, nil)
			})
	}
	ofProject := func(path, id, summary string) {
		handle(s, route{method: http.MethodGet, path: membridgePath + "/projects/{cid}" + path, id: id, small: true, summary: summary, tag: "membridge"},
			func(ctx context.Context, _ *call, in *projectInput) (*reply[json.RawMessage], error) {
				project, err := in.path()
				if err != nil {
					return nil, err
				}
				return s.ask(ctx, http.MethodGet, project+path, nil)
			})
	}
	get("/health", "membridge-health", "Membridge's health")
	get("/projects", "membridge-projects", "The projects membridge knows")
	handle(s, route{method: http.MethodGet, path: membridgePath + "/agents", id: "membridge-agents", small: true, summary: "The agents membridge knows, which execute sync jobs", tag: "membridge"}, s.listAgents)
	ofProject("/leadership", "membridge-leadership", "Who leads a project")
	ofProject("/nodes", "membridge-nodes", "The nodes of a project")
	handle(s, route{method: http.MethodGet, path: membridgePath + "/jobs", id: "membridge-jobs", small: true, summary: "Sync jobs, newest first", tag: "membridge"},
		func(ctx context.Context, _ *call, in *jobsInput) (*reply[json.RawMessage], error) {
			query, err := in.query()
			if err != nil {
				return nil, err
			}
			return s.ask(ctx, http.MethodGet, "/jobs?"+query, nil)
		})
	s.syncRoutes()
	handle(s, route{method: http.MethodPost, path: membridgePath + "/projects/{cid}/leadership/select", id: "membridge-select", summary: "Select the leader of a project", tag: "membridge", body: selectBody{}}, s.selectLeader)
}

// jobsInput filters the list of sync jobs.
type jobsInput struct {
	Project string `query:"project" maxLength:"256" doc:"A project's name or canonical_id"`
	Limit   number `query:"limit" doc:"1 to 200; absent: 50"`
}

func (in *jobsInput) query() (string, error) {
	limit := 50
	if in.Limit != "" {
		n, err := strconv.Atoi(string(in.Limit))
		if err != nil || n < 1 {
			return "", bloom.Invalid("The limit is invalid", bloom.FieldError{Field: "limit", Message: "must be a number from 1 to 200"})
		}
		limit = min(n, 200)
	}
	query := url.Values{"limit": {strconv.Itoa(limit)}}
	if in.Project != "" {
		query.Set("project", in.Project)
	}
	return query.Encode(), input.Check(in)
}

// maxAgents is the maximum number of agents in a page: even with the longest lists they fit into
// the longest response that is read from membridge.
const maxAgents = 200

type agentsInput struct {
	Limit  number `query:"limit" doc:"1 to 200; absent: 200"`
	Cursor string `query:"cursor" maxLength:"512" doc:"From the Link header of the previous page"`
}

// listAgents returns a page of membridge's list.
func (s *Server) listAgents(ctx context.Context, c *call, in *agentsInput) (*page[json.RawMessage], error) {
	limit := maxAgents
	if in.Limit != "" {
		n, err := strconv.Atoi(string(in.Limit))
		if err != nil || n < 1 {
			return nil, bloom.Invalid("The limit is invalid", bloom.FieldError{Field: "limit", Message: "must be a number from 1 to 200"})
		}
		limit = min(n, maxAgents)
	}
	query := url.Values{"limit": {strconv.Itoa(limit)}}
	if in.Cursor != "" {
		query.Set("after", in.Cursor)
	}
	if err := input.Check(in); err != nil {
		return nil, err
	}
	res, err := s.ask(ctx, http.MethodGet, "/agents?"+query.Encode(), nil)
	if err != nil {
		return nil, err
	}
	out := &page[json.RawMessage]{Body: []json.RawMessage{}}
	if err := json.Unmarshal(res.Body, &out.Body); err != nil {
		var wrapped struct { // by another membridge
			Agents []json.RawMessage `json:"agents"`
		}
		if err := json.Unmarshal(res.Body, &wrapped); err != nil {
			return nil, &bloom.Error{Kind: bloom.KindUpstream, Code: bloom.CodeMembridgeInvalidResponse, Message: "Membridge's list of agents is invalid"}
		}
		out.Body = append(out.Body, wrapped.Agents...)
	}
	var last struct {
		Name string `json:"name"`
	}
	if n := len(out.Body); n == limit && json.Unmarshal(out.Body[n-1], &last) == nil && last.Name != "" {
		out.Link = nextPage(c.r, last.Name)
	}
	return out, nil
}

// maxProject is the maximum length of a project's id in characters; membridge's own
// limit is lower.
const maxProject = 512

// path returns the project's path at membridge.
func (in *projectInput) path() (string, error) {
	if in.CID == "." || in.CID == ".." || utf8.RuneCountInString(in.CID) > maxProject {
		return "", bloom.NotFound("Project")
	}
	return "/projects/" + url.PathEscape(in.CID), nil
}

// selectBody selects the leader of a project.
type selectBody struct {
	PrimaryNodeID string  `json:"primary_node_id" minLength:"1" maxLength:"256"`
	LeaseSeconds  int     `json:"lease_seconds" required:"false" minimum:"1" maximum:"2147483648" default:"3600"`
	IssuedBy      *string `json:"issued_by,omitempty" required:"false" nullable:"true" maxLength:"128" doc:"Who decided; absent: the name of the key"`
	ExpectedEpoch *int64  `json:"expected_epoch,omitempty" required:"false" nullable:"true" minimum:"0" doc:"Select only if this is the current epoch (0: never selected), else 409"`
}

func (s *Server) selectLeader(ctx context.Context, c *call, in *projectInput) (*reply[json.RawMessage], error) {
	var b selectBody
	if err := s.decode(c, limitBody, &b); err != nil {
		return nil, err
	}
	if b.IssuedBy == nil || *b.IssuedBy == "" {
		b.IssuedBy = &c.caller.Name
	}
	project, err := in.path()
	if err != nil {
		return nil, err
	}
	// Membridge executes the selection whether or not the caller waits, so the audit
	// must record it in any case.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), selectLimit)
	defer cancel()
	res, err := s.ask(ctx, http.MethodPost, project+"/leadership/select", storable.MustJSON(b))
	if unanswered(err) {
		return nil, errors.Join(err, s.auditOrder(ctx, c, audit.ActionLeadershipPromote, in.CID,
			"Outcome unknown: membridge did not answer whether "+b.PrimaryNodeID+" leads "+in.CID, map[string]string{"primary_node_id": b.PrimaryNodeID, "outcome": "unknown"}))
	}
	if err != nil {
		return nil, err
	}
	if !promoted(res.Body, in.CID, b.PrimaryNodeID) {
		return nil, &bloom.Error{Kind: bloom.KindUpstream, Code: bloom.CodeMembridgeInvalidResponse,
			Message: "Membridge did not confirm that it selected this node; check the project's leadership"}
	}
	return res, s.auditOrder(ctx, c, audit.ActionLeadershipPromote, in.CID, b.PrimaryNodeID+" leads "+in.CID, map[string]string{"primary_node_id": b.PrimaryNodeID})
}

// auditOrder records in the audit what a caller had membridge do with a project.
func (s *Server) auditOrder(ctx context.Context, c *call, action, project, detail string, data map[string]string) error {
	ctx, done := context.WithTimeout(context.WithoutCancel(ctx), auditLimit)
	defer done()
	for name, text := range data {
		data[name] = storable.Text(text)
	}
	return s.store.AppendAudit(ctx, bloom.Audit{
		Action: action, EntityType: "project", EntityID: storable.Text(project), Actor: c.caller.Name, Detail: storable.Text(detail), Data: storable.MustJSON(data),
	})
}

const (
	selectLimit = time.Minute // longer than membridge may take by default
	auditLimit  = 10 * time.Second
)

// promoted reports whether membridge's answer confirms the selection.
func promoted(answer json.RawMessage, cid, node string) bool {
	var confirmed struct {
		OK            bool   `json:"ok"`
		CanonicalID   string `json:"canonical_id"`
		PrimaryNodeID string `json:"primary_node_id"`
	}
	err := json.Unmarshal(answer, &confirmed)
	return err == nil && confirmed.OK && confirmed.CanonicalID == cid && confirmed.PrimaryNodeID == node
}
