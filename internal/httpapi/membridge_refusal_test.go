package httpapi_test

import (
	"context"
	"encoding/json"
	"slices"
	"testing"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/auth"
	"github.com/bloom-runtime/bloom/internal/dispatch"
	"github.com/bloom-runtime/bloom/internal/httpapi"
)

func TestMembridgesRefusalIsPassedOnInOurShape(t *testing.T) {
	t.Parallel()
	p := &proxy{}
	r := newFixture(t, func(_ *dispatch.Config, _ *auth.Config, h *httpapi.Config) { h.Proxy = p })
	for _, c := range []struct {
		status        int
		answer        string
		message, code string
		details       []bloom.FieldError
	}{
		{404, `{"detail":"Project not found"}`, "Project not found", "not_found", nil},
		{409, `{"detail":"Another primary was selected"}`, "Another primary was selected", "conflict", nil},
		{429, `{"detail":"Slower"}`, "Slower", "rate_limited", nil},
		{400, `{"detail":"lease_seconds: must be at least 1"}`, "lease_seconds: must be at least 1", "invalid_request", nil},
		{422, `{"detail":[{"loc":["body","lease_seconds"],"msg":"value is not a valid integer","type":"type_error.integer"}]}`,
			"Membridge refused the request: lease_seconds value is not a valid integer", "invalid_request",
			[]bloom.FieldError{{Field: "lease_seconds", Message: "value is not a valid integer"}}},
		{418, `{"detail":{"odd":true}}`, "Membridge refused the request", "invalid_request", nil},
	} {
		p.status, p.answer = c.status, c.answer
		a := r.do("POST", "/api/membridge/projects/abc/leadership/select", `{"primary_node_id":"n1"}`)
		var got struct {
			Error, Code string
			RequestID   string `json:"request_id"`
			Details     []bloom.FieldError
			Detail      json.RawMessage
		}
		must(t, json.Unmarshal(a.body, &got))
		if retry := a.header.Get("Retry-After"); (retry != "") != (c.status == 429) {
			t.Errorf("%d with Retry-After %q", c.status, retry)
		}
		if a.status != c.status || got.Error != c.message || got.Code != c.code || got.RequestID == "" || !slices.Equal(got.Details, c.details) ||
			`{"detail":`+string(got.Detail)+`}` != c.answer {
			t.Errorf("%d %s becomes %d %s", c.status, c.answer, a.status, a.body)
		}
	}
}

type proxy struct {
	status             int
	answer, path, body string
	err                error
	hook               func()
}

func (p *proxy) Do(ctx context.Context, _, path string, body json.RawMessage) (int, json.RawMessage, error) {
	p.path, p.body = path, string(body)
	if p.hook != nil {
		p.hook()
	}
	if p.err != nil {
		return 0, nil, p.err
	}
	if err := ctx.Err(); err != nil {
		return 0, nil, err
	}
	return p.status, json.RawMessage(p.answer), nil
}
