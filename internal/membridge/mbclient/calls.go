package mbclient

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode"

	"github.com/bloom-runtime/bloom"
)

// Agent is a worker as membridge lists it.
type Agent struct {
	Name          string             `json:"name"`
	URL           string             `json:"url"`
	Status        bloom.WorkerStatus `json:"status"`
	RegisteredAt  Stamp              `json:"registered_at"`
	LastSeen      Stamp              `json:"last_seen"`
	HeartbeatAt   Stamp              `json:"heartbeat_at"` // zero when it never sent one
	Capabilities  bloom.Capabilities `json:"capabilities"`
	NodeID        string             `json:"node_id"`
	IPAddrs       []string           `json:"ip_addrs"`
	ObsCount      int64              `json:"obs_count"`
	DBSHA         string             `json:"db_sha"`
	AgentVersion  string             `json:"agent_version"`
	OSInfo        string             `json:"os_info"`
	InstallMethod string             `json:"install_method"`
	PostedAt      Stamp              `json:"posted_at"` // last registration, zero when membridge does not tell
	Drain         bool               `json:"drain"`
}

// Stamp is a moment in Unix milliseconds, zero when there is none. It reads
// seconds (ours), milliseconds, RFC 3339 text and null, since other membridges
// may write any of them.
type Stamp int64

// secondsLimit parts seconds from milliseconds: as seconds it is the year 5138.
const secondsLimit = 1e11

// UnmarshalJSON reads a moment; what cannot be read is no moment.
func (s *Stamp) UnmarshalJSON(b []byte) error {
	*s = 0
	var n float64
	if json.Unmarshal(b, &n) == nil {
		if n < secondsLimit {
			n *= 1000
		}
		if n > 0 && n < 1e15 {
			*s = Stamp(n)
		}
		return nil
	}
	var t time.Time
	if json.Unmarshal(b, &t) == nil && !t.IsZero() {
		*s = Stamp(t.UnixMilli())
	}
	return nil
}

// Health asks for membridge's health and returns it as it is, one try only: it
// is a person, or a probe, that waits.
func (c *Client) Health(ctx context.Context) (json.RawMessage, error) {
	_, answer, err := c.do(ctx, request{method: http.MethodGet, path: "/health", read: healthy, certain: true})
	if err != nil {
		return nil, err
	}
	return answer, nil
}

// Check asks for something small that needs the admin key, one try only. It fails
// with CodeMembridgeForbidden when the key is wrong.
func (c *Client) Check(ctx context.Context) error {
	return c.fetch(ctx, request{method: http.MethodGet, path: "/projects", read: objects}, nil)
}

// Agents lists the agents, from an array or from {"agents": […]}. Entries that
// are none are left out; State tells of them.
func (c *Client) Agents(ctx context.Context) ([]Agent, error) {
	t := c.now()
	var list agentList
	if err := c.fetch(ctx, request{method: http.MethodGet, path: "/agents", repeatable: true, certain: true}, &list); err != nil {
		return nil, err
	}
	c.skipped(t, list.skipped, list.why)
	return list.agents, nil
}

// Bounds of a listed agent that makes sense, in bytes: a name of 128 characters,
// and more of everything else than membridge itself takes.
const (
	maxName   = 4 * 128
	maxRecord = 64 << 10
)

type agentList struct {
	agents  []Agent
	skipped int
	why     string // of the first that was skipped
}

// UnmarshalJSON takes both shapes. An agent that makes no sense is left out, so
// that one bad record does not hide the others; when all are bad, it is no list
// of agents.
func (l *agentList) UnmarshalJSON(b []byte) error {
	var raw []json.RawMessage
	if trimmed := bytes.TrimSpace(b); len(trimmed) > 0 && trimmed[0] == '{' {
		var wrapped struct {
			Agents *[]json.RawMessage `json:"agents"`
		}
		if err := json.Unmarshal(b, &wrapped); err != nil {
			return err
		}
		if wrapped.Agents == nil {
			return errors.New("neither an array nor an object with agents")
		}
		raw = *wrapped.Agents
	} else if err := json.Unmarshal(b, &raw); err != nil {
		return err
	} else if raw == nil {
		return errors.New("null is no list of agents")
	}
	*l = agentList{agents: make([]Agent, 0, len(raw))}
	for i, one := range raw {
		a, wrong := readAgent(one)
		if wrong == "" {
			l.agents = append(l.agents, a)
			continue
		}
		if l.skipped++; l.skipped == 1 {
			l.why = fmt.Sprintf("entry %d %s", i+1, wrong)
		}
	}
	if l.skipped > 0 && len(l.agents) == 0 {
		return errors.New(l.why)
	}
	return nil
}

// readAgent reads one entry, or says what is wrong with it.
func readAgent(entry json.RawMessage) (a Agent, wrong string) {
	a = Agent{Capabilities: bloom.Capabilities{ClaudeCLI: true, MaxConcurrency: 1}}
	switch {
	case len(entry) > maxRecord:
		return a, "is too long"
	case json.Unmarshal(entry, &a) != nil:
		return a, "has not the shape of an agent"
	case strings.TrimSpace(a.Name) == "":
		return a, "has no name"
	case len(a.Name) > maxName:
		return a, "has too long a name"
	case a.Name == "." || a.Name == ".." || strings.ContainsFunc(a.Name, func(r rune) bool { return r == '/' || unicode.IsControl(r) }):
		return a, "has a name that fits in no address"
	}
	a.tidy()
	return a, ""
}

// tidy brings the values into the runtime's bounds.
func (a *Agent) tidy() {
	switch a.Status {
	case bloom.WorkerOnline, bloom.WorkerOffline, bloom.WorkerSyncing, bloom.WorkerError:
	default:
		a.Status = bloom.WorkerUnknown
	}
	a.Capabilities.MaxConcurrency = min(max(a.Capabilities.MaxConcurrency, 1), bloom.MaxConcurrency)
	if a.Capabilities.Labels == nil {
		a.Capabilities.Labels = []string{}
	}
	if a.IPAddrs == nil {
		a.IPAddrs = []string{}
	}
	if a.NodeID == "" {
		a.NodeID = a.Name
	}
}

// Registration is what a worker says of itself to membridge.
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

// Beat is a worker's heartbeat.
type Beat struct {
	Status       bloom.WorkerStatus  `json:"status,omitempty"`
	IntervalSec  float64             `json:"interval_sec,omitempty"`
	Load         *Load               `json:"load,omitempty"`
	Capabilities *bloom.Capabilities `json:"capabilities,omitempty"`
	ObsCount     *int64              `json:"obs_count,omitempty"`
	DBSHA        *string             `json:"db_sha,omitempty"`
	IPAddrs      []string            `json:"ip_addrs,omitempty"`
	WaitSec      float64             `json:"wait_sec,omitempty"`
	Drain        *bool               `json:"drain,omitempty"` // whether it is drained, as the worker knows it
	Held         []string            `json:"held,omitempty"`  // ids of the commands that it works on
	Reports      []Report            `json:"reports,omitempty"`
}

// Load is what a worker is doing.
type Load struct {
	Running int     `json:"running"`
	Queued  int     `json:"queued"`
	CPU     float64 `json:"cpu,omitempty"`
	Memory  float64 `json:"memory,omitempty"`
}

// Report says how a command went.
type Report struct {
	JobID  string `json:"job_id"`
	Status string `json:"status"` // "completed" or "failed"
	Detail string `json:"detail,omitempty"`
	// Stdout, Stderr and ReturnCode are those of the program that was run, or what
	// they would have been.
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

// Wanted is what membridge wants of a worker.
type Wanted struct {
	Drain      bool      `json:"drain"`
	Commands   []Command `json:"commands"`
	RuntimeURL string    `json:"runtime_url"` // empty when membridge does not know it
}

// RegisterAgent registers a worker, or updates it. The answer may name the
// runtime.
func (c *Client) RegisterAgent(ctx context.Context, r Registration) (runtimeURL string, err error) {
	var w Wanted
	err = c.post(ctx, request{path: "/agents", repeatable: true, read: object("name")}, r, &w)
	return w.RuntimeURL, err
}

// AgentHeartbeat tells that the worker lives and asks what is wanted of it,
// waiting b.WaitSec for something. IsMissing(err): membridge does not know it.
func (c *Client) AgentHeartbeat(ctx context.Context, name string, b Beat) (Wanted, error) {
	var w Wanted
	r := request{path: "/agents/" + escape(name) + "/heartbeat", repeatable: true, read: object("name"), extra: time.Duration(b.WaitSec * float64(time.Second))}
	err := c.post(ctx, r, b, &w)
	return w, err
}

// NodeBeat is a node's heartbeat for one project's memory.
type NodeBeat struct {
	NodeID       string   `json:"node_id"`
	CanonicalID  string   `json:"canonical_id"`
	ProjectID    string   `json:"project_id,omitempty"` // the project's name
	ObsCount     *int64   `json:"obs_count,omitempty"`
	DBSHA        *string  `json:"db_sha,omitempty"`
	IPAddrs      []string `json:"ip_addrs,omitempty"`
	AgentVersion string   `json:"agent_version,omitempty"`
}

// Standing is what membridge answers to a node's heartbeat.
type Standing struct {
	Role string `json:"role"` // "primary", "secondary" or "unknown": nobody leads now
	// Term is the last one, expired or not; nil when there never was one, and from
	// the earlier system, which does not tell.
	Term *Term `json:"lease"`
}

// Term is one leadership. Times are Unix seconds by membridge's clock.
type Term struct {
	PrimaryNodeID string  `json:"primary_node_id"`
	Epoch         int64   `json:"epoch"`
	LeaseSeconds  int64   `json:"lease_seconds"`
	IssuedBy      string  `json:"issued_by"`
	IssuedAt      float64 `json:"issued_at"`
	ExpiresAt     float64 `json:"expires_at"`
}

// NodeHeartbeat tells how a node's memory of a project is and learns who leads it.
func (c *Client) NodeHeartbeat(ctx context.Context, b NodeBeat) (Standing, error) {
	var s Standing
	err := c.post(ctx, request{path: "/agent/heartbeat", repeatable: true, read: object("role", "canonical_id")}, b, &s)
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
