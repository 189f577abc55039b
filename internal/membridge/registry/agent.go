package registry

import (
	"encoding/json"
	"time"

	"github.com/bloom-runtime/bloom"
)

// DefaultInterval is the heartbeat interval of agents that do not report theirs.
const DefaultInterval = 10 * time.Second

// silentIntervals is how many missed heartbeats make an agent offline.
const silentIntervals = 3

// Agent is a worker node as the control plane knows it. Its name identifies it.
type Agent struct {
	Name          string             `json:"name"`
	URL           string             `json:"url" doc:"Where the control plane may call the agent; empty when it cannot be called"`
	Status        bloom.WorkerStatus `json:"status" enum:"online,offline,syncing,error,unknown"`
	RegisteredAt  Seconds            `json:"registered_at" doc:"Unix seconds"`
	LastSeen      *Seconds           `json:"last_seen" doc:"Last contact by a heartbeat or a response, Unix seconds; null when there was none"`
	HeartbeatAt   *Seconds           `json:"heartbeat_at" doc:"Last heartbeat, Unix seconds; null when it never sent one"`
	IntervalSec   float64            `json:"interval_sec" doc:"Interval of its heartbeats; after three intervals of silence it is offline"`
	Capabilities  bloom.Capabilities `json:"capabilities"`
	Load          Load               `json:"load"`
	NodeID        string             `json:"node_id"`
	IPAddrs       []string           `json:"ip_addrs" nullable:"false"`
	ObsCount      bloom.ObsCount     `json:"obs_count" nullable:"true" doc:"Observations in its memory; null when unknown"`
	DBSHA         string             `json:"db_sha"`
	AgentVersion  OptionalText       `json:"agent_version" nullable:"true" doc:"Null when unknown"`
	OSInfo        string             `json:"os_info"`
	InstallMethod OptionalText       `json:"install_method" nullable:"true" doc:"Null when unknown"`
	PostedAt      Seconds            `json:"posted_at" doc:"Last registration, Unix seconds"`
	Drain         bool               `json:"drain" doc:"Drained here: it takes no work until it is undrained here. The runtime may drain it, too"`
	Bound         bool               `json:"bound" doc:"Only the owner of the agent's token, or an admin, may change it"`
	// Token is the digest of the token that the agent is bound to; never shown.
	Token string `json:"-"`
}

// OptionalText is a text that an agent may report. "" means unknown, and is null in JSON.
type OptionalText string

// MarshalJSON encodes an unknown text as null.
func (s OptionalText) MarshalJSON() ([]byte, error) {
	if s == "" {
		return []byte("null"), nil
	}
	return json.Marshal(string(s))
}

// Load is the load that an agent reports.
type Load struct {
	Running int     `json:"running" required:"false" minimum:"0" maximum:"100000" doc:"Tasks running now"`
	Queued  int     `json:"queued" required:"false" minimum:"0" maximum:"100000" doc:"Tasks claimed and not yet started"`
	CPU     float64 `json:"cpu" required:"false" minimum:"0" doc:"Load average of one minute"`
	Memory  float64 `json:"memory" required:"false" minimum:"0" maximum:"1" doc:"Share of memory in use"`
}

// AgentPatch has the properties of an agent in a registration or a heartbeat. A nil field keeps the
// stored value, or the default for a new agent.
type AgentPatch struct {
	URL           *string
	Status        *bloom.WorkerStatus
	Interval      *time.Duration
	Capabilities  *CapabilitiesPatch
	Load          *Load
	NodeID        *string
	IPAddrs       *[]string
	ObsCount      *int64
	DBSHA         *string
	AgentVersion  *string
	OSInfo        *string
	InstallMethod *string
}

// CapabilitiesPatch is a partial bloom.Capabilities.
type CapabilitiesPatch struct {
	ClaudeCLI      *bool
	MaxConcurrency *int
	Labels         *[]string
}

// NewAgent returns an agent with defaults. Like in the runtime, it runs claude, one task at a time,
// until it reports otherwise.
func NewAgent(name string, now time.Time) Agent {
	return Agent{
		Name: name, Status: bloom.WorkerUnknown, NodeID: name, RegisteredAt: ToSeconds(now),
		IntervalSec:  DefaultInterval.Seconds(),
		Capabilities: bloom.Capabilities{ClaudeCLI: true, MaxConcurrency: 1, Labels: []string{}},
		IPAddrs:      []string{},
	}
}

// Apply updates the agent with the fields of the patch that are set.
func (p AgentPatch) Apply(a *Agent) {
	set(&a.URL, p.URL)
	set(&a.Status, p.Status)
	set(&a.Load, p.Load)
	set(&a.NodeID, p.NodeID)
	set(&a.IPAddrs, p.IPAddrs)
	set(&a.ObsCount, (*bloom.ObsCount)(p.ObsCount))
	set(&a.DBSHA, p.DBSHA)
	set(&a.AgentVersion, (*OptionalText)(p.AgentVersion))
	set(&a.OSInfo, p.OSInfo)
	set(&a.InstallMethod, (*OptionalText)(p.InstallMethod))
	if p.Interval != nil {
		a.IntervalSec = p.Interval.Seconds()
	}
	if c := p.Capabilities; c != nil {
		set(&a.Capabilities.ClaudeCLI, c.ClaudeCLI)
		set(&a.Capabilities.MaxConcurrency, c.MaxConcurrency)
		set(&a.Capabilities.Labels, c.Labels)
	}
}

func set[T any](to *T, from *T) {
	if from != nil {
		*to = *from
	}
}

// TouchInterval is how often the contact of an agent whose heartbeat is waiting must be recorded,
// so that it does not count as silent.
func TouchInterval(a Agent) time.Duration {
	return time.Duration(a.IntervalSec * float64(time.Second) * (silentIntervals - 1))
}

// Uptime is since when this control plane has been serving, and until when one served before. The
// time in between is an outage in which no agent could report, so it does not count as silence:
// otherwise every restart would set all agents offline.
type Uptime struct {
	LastAlive time.Time // zero when none served before
	Started   time.Time
}

// Liveness returns the status of the agent at now. One that never sent a heartbeat keeps the status
// of its registration; one that has sent one and is silent for longer than three intervals is
// offline.
func (u Uptime) Liveness(a Agent, now time.Time) bloom.WorkerStatus {
	if a.HeartbeatAt == nil {
		return a.Status
	}
	if u.silence(*a.HeartbeatAt, ToSeconds(now)) > silentIntervals*a.IntervalSec {
		return bloom.WorkerOffline
	}
	return a.Status
}

func (u Uptime) silence(heartbeat, now Seconds) Seconds {
	silent := now - heartbeat
	started := ToSeconds(u.Started)
	if u.LastAlive.IsZero() || heartbeat >= started {
		return silent
	}
	return silent - max(0, started-max(heartbeat, ToSeconds(u.LastAlive)))
}
