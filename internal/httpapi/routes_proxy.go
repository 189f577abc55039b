package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/dispatch"
	"github.com/bloom-runtime/bloom/internal/input"
)

// MembridgeProxy asks membridge, with the server's own key.
type MembridgeProxy interface {
	// Do sends body (nil: none) to path, which is escaped already, and answers
	// with membridge's status below 500 and its JSON, which has the shape of an
	// answer to that; or with 502 and the job_id and detail of a job that an agent did
	// not carry out. A *bloom.Error says why there is no answer.
	Do(ctx context.Context, method, path string, body json.RawMessage) (status int, answer json.RawMessage, err error)
}

type projectInput struct {
	CID string `path:"cid"`
}

func (s *Server) proxyRoutes() {
	// What goes on is made of the route and of what it matched, never of the path as
	// it came: that may be escaped in more ways than one, and the key goes with it.
	get := func(path, id, summary string) {
		handle(s, route{method: http.MethodGet, path: membridgePath + path, id: id, summary: summary, tag: "membridge"},
			func(ctx context.Context, _ *call, _ *none) (*reply[json.RawMessage], error) {
				return s.ask(ctx, http.MethodGet, path, nil)
			})
	}
	ofProject := func(path, id, summary string) {
		handle(s, route{method: http.MethodGet, path: membridgePath + "/projects/{cid}" + path, id: id, summary: summary, tag: "membridge"},
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
	get("/agents", "membridge-agents", "The agents membridge knows, which carry out sync jobs")
	ofProject("/leadership", "membridge-leadership", "Who leads a project")
	ofProject("/nodes", "membridge-nodes", "The nodes of a project")
	handle(s, route{method: http.MethodGet, path: membridgePath + "/jobs", id: "membridge-jobs", summary: "Sync jobs, newest first", tag: "membridge"},
		func(ctx context.Context, _ *call, in *jobsInput) (*reply[json.RawMessage], error) {
			query, err := in.query()
			if err != nil {
				return nil, err
			}
			return s.ask(ctx, http.MethodGet, "/jobs?"+query, nil)
		})
	s.syncRoutes()
	handle(s, route{method: http.MethodPost, path: membridgePath + "/projects/{cid}/leadership/select", id: "membridge-select", summary: "Choose who leads a project", tag: "membridge", body: selectBody{}}, s.selectLeader)
}

// jobsInput narrows the list of sync jobs.
type jobsInput struct {
	Project string `query:"project" maxLength:"256" doc:"A project's name or canonical_id"`
	Limit   number `query:"limit" doc:"1 to 200, 50 when absent"`
}

func (in *jobsInput) query() (string, error) {
	limit := 50
	if in.Limit != "" {
		n, err := strconv.Atoi(string(in.Limit))
		if err != nil || n < 1 {
			return "", bloom.Invalid("The limit is wrong", bloom.FieldError{Field: "limit", Message: "must be a number from 1 to 200"})
		}
		limit = min(n, 200)
	}
	query := url.Values{"limit": {strconv.Itoa(limit)}}
	if in.Project != "" {
		query.Set("project", in.Project)
	}
	return query.Encode(), input.Check(in)
}

// maxProject is the most characters in a project's id; membridge's own limit is lower.
const maxProject = 512

// path is the project's at membridge.
func (in *projectInput) path() (string, error) {
	if in.CID == "." || in.CID == ".." || utf8.RuneCountInString(in.CID) > maxProject {
		return "", bloom.NotFound("Project")
	}
	return "/projects/" + url.PathEscape(in.CID), nil
}

// selectBody chooses who leads a project.
type selectBody struct {
	PrimaryNodeID string  `json:"primary_node_id" minLength:"1" maxLength:"256"`
	LeaseSeconds  int     `json:"lease_seconds" required:"false" minimum:"1" maximum:"2147483648" default:"3600"`
	IssuedBy      *string `json:"issued_by,omitempty" required:"false" nullable:"true" maxLength:"128" doc:"Who decided; whose key it is when absent"`
	ExpectedEpoch *int64  `json:"expected_epoch,omitempty" required:"false" nullable:"true" minimum:"0" doc:"Select only while this is the current epoch (0: never selected), else 409"`
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
	// A selection that was sent is carried out whether or not its caller waits for
	// it, and then belongs in the audit.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), selectLimit)
	defer cancel()
	res, err := s.ask(ctx, http.MethodPost, project+"/leadership/select", bloom.MustJSON(b))
	if unanswered(err) {
		keep, done := context.WithTimeout(context.WithoutCancel(ctx), auditLimit)
		defer done()
		return nil, errors.Join(err, s.svc.PromotionUnknown(keep, in.CID, b.PrimaryNodeID, c.caller.Name))
	}
	if err != nil {
		return nil, err
	}
	if !promoted(res.Body, in.CID, b.PrimaryNodeID) {
		return nil, &bloom.Error{Kind: bloom.KindUpstream, Code: bloom.CodeMembridgeStrange,
			Message: "Membridge did not say that it selected this node for this project; look at the leadership"}
	}
	return res, s.svc.Promoted(ctx, in.CID, b.PrimaryNodeID, c.caller.Name)
}

// A selection outlives its caller by selectLimit at most, which is longer than
// membridge may take by default; its audit takes no longer than auditLimit.
const (
	selectLimit = time.Minute
	auditLimit  = 10 * time.Second
)

// unanswered reports that the request was sent, and may have been carried out.
func unanswered(err error) bool {
	var e *bloom.Error
	var op *net.OpError
	if !errors.As(err, &e) || e.Kind != bloom.KindUpstream || errors.As(err, &op) && op.Op == "dial" {
		return false
	}
	return e.Code == bloom.CodeMembridgeFailed || e.Code == bloom.CodeMembridgeDown && e.Cause != nil
}

// promoted reports whether membridge's answer says that what was asked for is so.
func promoted(answer json.RawMessage, cid, node string) bool {
	var said struct {
		OK            bool   `json:"ok"`
		CanonicalID   string `json:"canonical_id"`
		PrimaryNodeID string `json:"primary_node_id"`
	}
	err := json.Unmarshal(answer, &said)
	return err == nil && said.OK && said.CanonicalID == cid && said.PrimaryNodeID == node
}

// ask passes a request on. Membridge's 401 and 403 are about our own key, never
// about the caller's, and are told as such.
func (s *Server) ask(ctx context.Context, method, path string, body json.RawMessage) (*reply[json.RawMessage], error) {
	if s.proxy == nil {
		return nil, &bloom.Error{Kind: bloom.KindUpstream, Code: bloom.CodeMembridgeDown, Message: dispatch.NoMembridge}
	}
	status, answer, err := s.proxy.Do(ctx, method, path, body)
	var ours *bloom.Error
	switch {
	case errors.As(err, &ours):
		return nil, err
	case err != nil:
		return nil, membridgeDown(err)
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return nil, &bloom.Error{Kind: bloom.KindUpstream, Code: bloom.CodeMembridgeForbidden,
			Message: "Membridge does not take the server's admin key; save the right one in the settings"}
	case status == http.StatusBadGateway:
		return nil, passedOn(status, answer)
	case status >= 500:
		return nil, &bloom.Error{Kind: bloom.KindUpstream, Code: bloom.CodeMembridgeFailed, Message: "Membridge failed; its own log says why"}
	case status < 200 || status > 299:
		return nil, passedOn(status, answer)
	case !json.Valid(answer):
		return nil, &bloom.Error{Kind: bloom.KindUpstream, Code: bloom.CodeMembridgeStrange, Message: "Membridge's answer makes no sense"}
	}
	return &reply[json.RawMessage]{status, answer}, nil
}

// passedOn is membridge's 4xx in our shape: its status, its sentence, and its own
// detail beside that for those who know it. Another membridge may refuse a body
// as FastAPI does, with 422 and a list of what is wrong.
func passedOn(status int, answer json.RawMessage) *Failure {
	f := &Failure{status: status, Code: passedCode(status), Message: "Membridge refused the request"}
	if status == http.StatusTooManyRequests {
		f.retryAfter = time.Second
	}
	var body struct {
		Detail json.RawMessage `json:"detail"`
	}
	if json.Unmarshal(answer, &body) != nil {
		return f
	}
	f.Detail = body.Detail
	var sentence string
	var wrong []struct {
		Loc []any  `json:"loc"`
		Msg string `json:"msg"`
	}
	if json.Unmarshal(body.Detail, &sentence) == nil && sentence != "" {
		f.Message = sentence
	} else if json.Unmarshal(body.Detail, &wrong) == nil && len(wrong) > 0 {
		for _, w := range wrong {
			f.Details = append(f.Details, bloom.FieldError{Field: place(w.Loc), Message: w.Msg})
		}
		f.Message = "Membridge refused the request: " + strings.TrimSpace(f.Details[0].Field+" "+f.Details[0].Message)
	}
	return f
}

// place is the path of a field as FastAPI tells it: ["body", "policy", 0].
func place(loc []any) string {
	if len(loc) > 1 && (loc[0] == "body" || loc[0] == "path" || loc[0] == "query") {
		loc = loc[1:]
	}
	parts := make([]string, len(loc))
	for i, p := range loc {
		parts[i] = fmt.Sprint(p)
	}
	return strings.Join(parts, ".")
}

func passedCode(status int) string {
	switch status {
	case http.StatusNotFound:
		return bloom.CodeNotFound
	case http.StatusConflict:
		return bloom.CodeConflict
	case http.StatusRequestEntityTooLarge:
		return bloom.CodeTooLarge
	case http.StatusTooManyRequests:
		return bloom.CodeRateLimited
	case http.StatusBadGateway:
		return bloom.CodeMembridgeJob
	}
	return bloom.CodeInvalid
}

func membridgeDown(cause error) error {
	return &bloom.Error{Kind: bloom.KindUpstream, Code: bloom.CodeMembridgeDown, Message: "Membridge does not answer", Cause: cause}
}
