package mbclient

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/bloom-runtime/bloom"
)

// Health returns membridge's health report unchanged. It tries once, because a person or a probe is
// waiting.
func (c *Client) Health(ctx context.Context) (json.RawMessage, error) {
	_, answer, err := c.do(ctx, request{method: http.MethodGet, path: "/health", read: healthy, certain: true})
	if err != nil {
		return nil, err
	}
	return answer, nil
}

// Check makes a small request that needs the admin key, one try only. It fails with
// CodeMembridgeForbidden when the key is wrong.
func (c *Client) Check(ctx context.Context) error {
	return c.fetch(ctx, request{method: http.MethodGet, path: "/projects", read: objects}, nil)
}

// Registration is a worker's registration at membridge.
type Registration struct {
	Name          string             `json:"name"`
	URL           string             `json:"url,omitempty"`
	Status        bloom.WorkerStatus `json:"status,omitempty"`
	IntervalSec   float64            `json:"interval_sec,omitempty"`
	Capabilities  bloom.Capabilities `json:"capabilities"`
	NodeID        string             `json:"node_id,omitempty"`
	IPAddrs       []string           `json:"ip_addrs,omitempty"`
	AgentVersion  string             `json:"agent_version,omitempty"`
	OSInfo        string             `json:"os_info,omitempty"`
	InstallMethod string             `json:"install_method,omitempty"`
}

// Heartbeat is a worker's heartbeat.
type Heartbeat struct {
	Status       bloom.WorkerStatus  `json:"status,omitempty"`
	IntervalSec  float64             `json:"interval_sec,omitempty"`
	Load         *Load               `json:"load,omitempty"`
	Capabilities *bloom.Capabilities `json:"capabilities,omitempty"`
	ObsCount     *int64              `json:"obs_count,omitempty"`
	DBSHA        *string             `json:"db_sha,omitempty"`
	IPAddrs      []string            `json:"ip_addrs,omitempty"`
	WaitSec      float64             `json:"wait_sec,omitempty"`
	Drain        *bool               `json:"drain,omitempty"` // whether membridge drains the worker, as last reported to it
	Held         []string            `json:"held,omitempty"`  // ids of the commands in progress
	Reports      []Report            `json:"reports,omitempty"`
}

// Load is the load of a worker.
type Load struct {
	Running int     `json:"running"`
	Queued  int     `json:"queued"`
	CPU     float64 `json:"cpu,omitempty"`
	Memory  float64 `json:"memory,omitempty"`
}

// Report is the outcome of a command.
type Report struct {
	JobID  string `json:"job_id"`
	Status string `json:"status"` // "completed" or "failed"
	Detail string `json:"detail,omitempty"`
	// Stdout, Stderr and ReturnCode are the output of the program that was run, or an equivalent.
	Stdout     string `json:"stdout,omitempty"`
	Stderr     string `json:"stderr,omitempty"`
	ReturnCode *int   `json:"returncode,omitempty"`
}

// Command is a request to move a project's memory.
type Command struct {
	ID          string `json:"id"`
	Type        string `json:"type"` // "sync_push" or "sync_pull"
	Project     string `json:"project"`
	CanonicalID string `json:"canonical_id"`
}

// Instructions are membridge's instructions for a worker.
type Instructions struct {
	Drain      bool      `json:"drain"`
	Commands   []Command `json:"commands"`
	RuntimeURL string    `json:"runtime_url"` // empty when membridge has none
}

// RegisterAgent registers a worker or updates its registration. The response may name the runtime.
func (c *Client) RegisterAgent(ctx context.Context, r Registration) (runtimeURL string, err error) {
	var w Instructions
	err = c.post(ctx, request{path: "/agents", idempotent: true, read: object("name")}, r, &w)
	return w.RuntimeURL, err
}

// AgentHeartbeat sends a worker's heartbeat and returns membridge's instructions. Membridge may
// wait up to h.WaitSec for new ones. IsMissing(err) means that the worker is not registered.
func (c *Client) AgentHeartbeat(ctx context.Context, name string, h Heartbeat) (Instructions, error) {
	var w Instructions
	r := request{path: "/agents/" + escape(name) + "/heartbeat", idempotent: true, read: object("name"), extra: time.Duration(h.WaitSec * float64(time.Second))}
	err := c.post(ctx, r, h, &w)
	return w, err
}

// NodeHeartbeat is a node's heartbeat for one project's memory.
type NodeHeartbeat struct {
	NodeID       string   `json:"node_id"`
	CanonicalID  string   `json:"canonical_id"`
	ProjectID    string   `json:"project_id,omitempty"` // the project's name
	ObsCount     *int64   `json:"obs_count,omitempty"`
	DBSHA        *string  `json:"db_sha,omitempty"`
	IPAddrs      []string `json:"ip_addrs,omitempty"`
	AgentVersion string   `json:"agent_version,omitempty"`
}

// Leadership is membridge's response to a node's heartbeat.
type Leadership struct {
	Role string `json:"role"` // "primary", "secondary" or "unknown" when no node leads
	// Term is the newest term, even if expired; nil when there is none, and from the earlier Node
	// implementation, which does not send it.
	Term *Term `json:"lease"`
}

// Term is one term of a leader. Times are Unix seconds by membridge's clock.
type Term struct {
	PrimaryNodeID string  `json:"primary_node_id"`
	Epoch         int64   `json:"epoch"`
	LeaseSeconds  int64   `json:"lease_seconds"`
	IssuedBy      string  `json:"issued_by"`
	IssuedAt      float64 `json:"issued_at"`
	ExpiresAt     float64 `json:"expires_at"`
}

// NodeHeartbeat reports the state of a node's memory of a project and returns who leads it.
func (c *Client) NodeHeartbeat(ctx context.Context, h NodeHeartbeat) (Leadership, error) {
	var s Leadership
	err := c.post(ctx, request{path: "/agent/heartbeat", idempotent: true, read: object("role", "canonical_id")}, h, &s)
	return s, err
}

func (c *Client) post(ctx context.Context, r request, body, into any) error {
	b, err := json.Marshal(body)
	if err != nil {
		return err
	}
	r.method, r.body = http.MethodPost, b
	return c.fetch(ctx, r, into)
}
