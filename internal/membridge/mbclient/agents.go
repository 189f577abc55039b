package mbclient

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
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
	RegisteredAt  Timestamp          `json:"registered_at"`
	LastSeen      Timestamp          `json:"last_seen"`
	HeartbeatAt   Timestamp          `json:"heartbeat_at"` // zero when it never sent one
	Capabilities  bloom.Capabilities `json:"capabilities"`
	NodeID        string             `json:"node_id"`
	IPAddrs       []string           `json:"ip_addrs"`
	ObsCount      int64              `json:"obs_count"`
	DBSHA         string             `json:"db_sha"`
	AgentVersion  string             `json:"agent_version"`
	OSInfo        string             `json:"os_info"`
	InstallMethod string             `json:"install_method"`
	PostedAt      Timestamp          `json:"posted_at"` // last registration, zero when membridge does not report it
	Drain         bool               `json:"drain"`
}

// Timestamp is a time in Unix milliseconds, 0 when unknown. It decodes seconds (ours),
// milliseconds, RFC 3339 text and null, since other membridge implementations may send any of them.
type Timestamp int64

// secondsLimit separates seconds from milliseconds: in seconds it is the year 5138.
const secondsLimit = 1e11

// UnmarshalJSON decodes a time. What it cannot parse becomes 0.
func (s *Timestamp) UnmarshalJSON(b []byte) error {
	*s = 0
	var n float64
	if json.Unmarshal(b, &n) == nil {
		if n < secondsLimit {
			n *= 1000
		}
		if n > 0 && n < 1e15 {
			*s = Timestamp(n)
		}
		return nil
	}
	var t time.Time
	if json.Unmarshal(b, &t) == nil && !t.IsZero() {
		*s = Timestamp(t.UnixMilli())
	}
	return nil
}

// Agents lists the agents, from an array or from {"agents": […]}. It skips invalid entries; State
// counts them. It reads pages, so that a response is never too long, and no more of them than
// bloom.MaxWorkers fill; a membridge without pages sends all agents at once.
func (c *Client) Agents(ctx context.Context) ([]Agent, error) {
	t := c.now()
	all := agentList{agents: []Agent{}}
	next := "/agents?limit=" + strconv.Itoa(agentPage)
	for range bloom.MaxWorkers/agentPage + 1 {
		var page agentList
		if err := c.fetch(ctx, request{method: http.MethodGet, path: next, idempotent: true, certain: true, next: &next}, &page); err != nil {
			return nil, err
		}
		all.agents = append(all.agents, page.agents...)
		all.skipped, all.why = all.skipped+page.skipped, cmp.Or(all.why, page.why)
		if next == "" {
			break
		}
	}
	c.skipped(t, all.skipped, all.why)
	return all.agents, nil
}

// Limits of a listed agent, in bytes: a name of 128 characters, and more of everything than
// membridge accepts, even if JSON has to escape each byte. A page of such agents is shorter than
// DefaultMaxResponse.
const (
	maxName   = 4 * 128
	maxRecord = 6 * (bloom.MaxWorkerLists + 8<<10)
	agentPage = 200
)

type agentList struct {
	agents  []Agent
	skipped int
	why     string // what is wrong with the first skipped entry
}

// UnmarshalJSON accepts both forms. It skips invalid agents, so that one bad record does not hide
// the others, and fails when all are invalid.
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
		return errors.New("null is not a list of agents")
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

// readAgent decodes one entry. wrong is what is invalid in it, or "".
func readAgent(entry json.RawMessage) (a Agent, wrong string) {
	a = Agent{Capabilities: bloom.Capabilities{ClaudeCLI: true, MaxConcurrency: 1}}
	switch {
	case len(entry) > maxRecord:
		return a, "is too long"
	case json.Unmarshal(entry, &a) != nil:
		return a, "is not an agent"
	case strings.TrimSpace(a.Name) == "":
		return a, "has no name"
	case len(a.Name) > maxName:
		return a, "has a name that is too long"
	case a.Name == "." || a.Name == ".." || strings.ContainsFunc(a.Name, func(r rune) bool { return r == '/' || unicode.IsControl(r) }):
		return a, "has a name that does not fit into a URL"
	}
	a.normalize()
	return a, ""
}

// normalize limits the values to the runtime's bounds.
func (a *Agent) normalize() {
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
