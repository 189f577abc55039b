package client

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/bloom-runtime/bloom"
)

// A reverse proxy whose server is down, a captive portal, or another program on the port may answer
// instead of the server. Such a response says nothing about the call and is an UnreachableError,
// whatever its status.

// serviceName is the runtime's name in its health report.
const serviceName = "bloom-runtime"

// foreign returns the error for a response that did not come from a runtime.
func (c *Client) foreign(resp *http.Response, body []byte) error {
	why := fmt.Errorf("something other than a BLOOM runtime answered with %d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
	if to, err := resp.Location(); err == nil && resp.StatusCode/100 == 3 {
		if base, _, ours := strings.Cut(to.String(), apiPath); ours {
			why = fmt.Errorf("it redirects to %s; use that address", base)
		} else {
			why = fmt.Errorf("it redirects to %s, which is not a runtime's address", to)
		}
	}
	if strings.HasPrefix(c.base, "http:") && wantsTLS(body) {
		why = fmt.Errorf("it requires https; use https%s", strings.TrimSuffix(strings.TrimPrefix(c.base, "http"), apiPath))
	}
	return &UnreachableError{URL: c.base, Sent: true, RetryAfter: retryAfter(resp.Header), Err: why}
}

// wantsTLS reports whether a response to plain HTTP says that the server expects HTTPS, in the
// words of Go, nginx or the runtime's --http-redirect.
func wantsTLS(body []byte) bool {
	text := bytes.ToLower(body)
	return slices.ContainsFunc([]string{"http request to an https server", "plain http request was sent to https port", `"code":"https_required"`},
		func(words string) bool { return bytes.Contains(text, []byte(words)) })
}

// isOurs reports whether a decoded success contains what only the runtime sends. Valid JSON is not
// enough: `{}` decodes into anything.
func isOurs(raw []byte, out any) bool {
	switch v := out.(type) {
	case *bloom.Task:
		return v.ID != ""
	case *bloom.Completed:
		return v.Task.ID != "" && v.Result.ID != ""
	case *bloom.HeartbeatResult:
		return v.Lease.ID != ""
	case *bloom.ClaimResult:
		return v.Leases != nil && v.Renewed != nil && v.Lost != nil && v.Cancel != nil
	case *bloom.Approval:
		return v.ID != ""
	case *[]bloom.Approval:
		return *v != nil
	case *bloom.Worker:
		return v.ID != ""
	case *Registered:
		return v.ID != ""
	case *WorkerDetail:
		return v.ID != ""
	case *Granted:
		return v.Lease.ID != ""
	case *bloom.Artifact:
		return v.ID != ""
	case *bloom.Stats:
		return v.Tasks.ByStatus != nil
	case *Health:
		return v.Service == serviceName
	case *appended:
		return v.Accepted != nil
	case *removed:
		return v.Removed || v.Forgotten || v.Ended
	case *bloom.CreatedKey:
		return v.Key != ""
	case *bloom.APIKey:
		return v.ID != ""
	case *bloom.Context:
		return v.ID != ""
	case *bloom.TaskFilter:
		return v.Name != ""
	case *bloom.TaskOutcomes:
		return v.Results != nil
	case *bloom.Problems:
		return v.Problems != nil
	case *bloom.Series:
		return v.Points != nil
	case *bloom.WorkerLogs:
		return v.Lines != nil
	case *bloom.ChainPart:
		return v.Links != nil
	case *bloom.TranscriptPart:
		return v.URL != ""
	}
	return bytes.Contains(raw, []byte(member(out)))
}

// member returns what a response has whose values may all be zero: a member, or the start of a
// list, which is never null.
func member(out any) string {
	switch out.(type) {
	case *Config:
		return `"admin_key_masked"`
	case *ConnectionTest:
		return `"connected"`
	case *bloom.TasksMatched:
		return `"matched"`
	case *bloom.SecretRotation:
		return `"kept_old"`
	case *bloom.TranscriptState, *bloom.WorkspaceState:
		return `"sha256"`
	}
	return "["
}

// appended and removed are the responses to appending events and to removing something.
type (
	appended struct {
		Accepted *int `json:"accepted"`
	}
	removed struct {
		Removed   bool `json:"removed"`
		Forgotten bool `json:"forgotten"` // of a context
		Ended     bool `json:"ended"`     // of a session
	}
)

// ourRefusal reports whether an error response has the runtime's form. Its codes are lower-case
// words joined by underscores.
func ourRefusal(message, code, requestID string) bool {
	plain := func(r rune) bool { return r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '_' }
	return message != "" && code != "" && requestID != "" && strings.TrimFunc(code, plain) == ""
}
