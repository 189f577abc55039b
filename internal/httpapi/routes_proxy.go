package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/auth"
)

// MembridgeProxy asks membridge, with the server's own key.
type MembridgeProxy interface {
	// Do sends body (nil: none) to path, which is escaped already, and answers
	// with membridge's status below 500 and its JSON. A *bloom.Error says why
	// there is no answer.
	Do(ctx context.Context, method, path string, body json.RawMessage) (status int, answer json.RawMessage, err error)
}

type projectInput struct {
	CID string `path:"cid"`
}

func (s *Server) proxyRoutes() {
	get := func(path, id, summary string) {
		handle(s, route{method: http.MethodGet, path: membridgePath + path, id: id, summary: summary, tag: "membridge", policy: auth.Read},
			func(ctx context.Context, c *call, _ *none) (*reply[json.RawMessage], error) {
				return s.ask(ctx, http.MethodGet, c.r.URL.EscapedPath()[len(membridgePath):], nil)
			})
	}
	get("/health", "membridge-health", "Membridge's health")
	get("/projects", "membridge-projects", "The projects membridge knows")
	get("/projects/{cid}/leadership", "membridge-leadership", "Who leads a project")
	get("/projects/{cid}/nodes", "membridge-nodes", "The nodes of a project")
	handle(s, route{method: http.MethodPost, path: membridgePath + "/projects/{cid}/leadership/select", id: "membridge-select", summary: "Choose who leads a project", tag: "membridge", policy: auth.Admin, body: selectBody{}}, s.selectLeader)
}

// selectBody chooses who leads a project.
type selectBody struct {
	PrimaryNodeID string `json:"primary_node_id" minLength:"1"`
	LeaseSeconds  int    `json:"lease_seconds" required:"false" minimum:"1" default:"3600"`
}

func (s *Server) selectLeader(ctx context.Context, c *call, in *projectInput) (*reply[json.RawMessage], error) {
	b := selectBody{LeaseSeconds: 3600}
	if err := decode(c, limitBody, &b); err != nil {
		return nil, err
	}
	var check checker
	check.text("primary_node_id", b.PrimaryNodeID, 1, 256)
	check.number("lease_seconds", int64(b.LeaseSeconds), 1, 1<<31)
	if err := check.err(); err != nil {
		return nil, err
	}
	res, err := s.ask(ctx, http.MethodPost, "/projects/"+url.PathEscape(in.CID)+"/leadership/select", bloom.MustJSON(b))
	if err == nil && res.Status < 300 {
		err = s.svc.Promoted(ctx, in.CID, b.PrimaryNodeID, c.caller.Name)
	}
	return res, err
}

// ask passes a request on. Membridge's 401 and 403 are about our own key, never
// about the caller's, and are told as such.
func (s *Server) ask(ctx context.Context, method, path string, body json.RawMessage) (*reply[json.RawMessage], error) {
	if s.proxy == nil {
		return nil, membridgeDown(nil)
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
	case status >= 500 || !json.Valid(answer):
		return nil, membridgeDown(errors.New("membridge answered with a failure of its own"))
	}
	return &reply[json.RawMessage]{status, answer}, nil
}

func membridgeDown(cause error) error {
	return &bloom.Error{Kind: bloom.KindUpstream, Code: bloom.CodeMembridgeDown, Message: "Membridge does not answer", Cause: cause}
}
