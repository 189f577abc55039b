package client

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"

	"github.com/bloom-runtime/bloom"
)

// Whatever stands between us and the server may answer in its stead: a reverse
// proxy whose server is away, a captive portal, another program on the port. Such
// an answer says nothing about the call. It counts as Unreachable, whatever its
// status.

// serviceName is what a runtime calls itself in its health report.
const serviceName = "bloom-runtime"

// foreign is the error for an answer that is not a runtime's.
func (c *Client) foreign(resp *http.Response) error {
	why := fmt.Errorf("something other than a BLOOM runtime answered with %d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
	if to := resp.Header.Get("Location"); to != "" && resp.StatusCode/100 == 3 {
		why = fmt.Errorf("it redirects to %s; use that address", to)
	}
	return &Unreachable{URL: c.base, Sent: true, RetryAfter: retryAfter(resp.Header), Err: why}
}

// isOurs reports whether a decoded success holds what only the runtime puts there.
// Valid JSON is not enough: `{}` decodes into anything.
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
		return v.Removed
	case *Config:
		return bytes.Contains(raw, []byte(`"admin_key_masked"`))
	case *ConnectionTest:
		return bytes.Contains(raw, []byte(`"connected"`))
	}
	return true
}

// appended is the answer to appended events, removed that to a removal.
type (
	appended struct {
		Accepted *int `json:"accepted"`
	}
	removed struct {
		Removed bool `json:"removed"`
	}
)

// ourRefusal reports whether an error's body has the runtime's shape. Its codes
// are lower case words joined by underscores.
func ourRefusal(message, code, requestID string) bool {
	plain := func(r rune) bool { return r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '_' }
	return message != "" && code != "" && requestID != "" && strings.TrimFunc(code, plain) == ""
}
