package registry

import (
	"encoding/json"
	"time"

	"github.com/bloom-runtime/bloom"
)

// DefaultInterval is how often an agent is expected to beat when it does not
// say.
const DefaultInterval = 10 * time.Second

// silentIntervals is after how many missed intervals an agent counts as offline.
const silentIntervals = 3

// Agent is a worker node as the control plane knows it. Its name is its identity.
type Agent struct {
	Name          string             `json:"name"`
	URL           string             `json:"url" doc:"Where the control plane may call the agent; empty when it cannot be called"`
	Status        bloom.WorkerStatus `json:"status" enum:"online,offline,syncing,error,unknown"`
	RegisteredAt  Seconds            `json:"registered_at" doc:"Unix seconds"`
	LastSeen      *Seconds           `json:"last_seen" doc:"When the agent was last heard of by a heartbeat or an answer, Unix seconds; null when it never was"`
	HeartbeatAt   *Seconds           `json:"heartbeat_at" doc:"Last heartbeat, Unix seconds; null when it never sent one"`
	IntervalSec   float64            `json:"interval_sec" doc:"How often it beats; silent for three times as long, it is offline"`
	Capabilities  bloom.Capabilities `json:"capabilities"`
	Load          Load               `json:"load"`
	NodeID        string             `json:"node_id"`
	IPAddrs       []string           `json:"ip_addrs" nullable:"false"`
	ObsCount      bloom.ObsCount     `json:"obs_count" nullable:"true" doc:"Observations in its memory; null when it never said"`
	DBSHA         string             `json:"db_sha"`
	AgentVersion  Said               `json:"agent_version" nullable:"true" doc:"Null when it never said"`
	OSInfo        string             `json:"os_info"`
	InstallMethod Said               `json:"install_method" nullable:"true" doc:"Null when it never said"`
	PostedAt      Seconds            `json:"posted_at" doc:"Last registration, Unix seconds"`
	Drain         bool               `json:"drain" doc:"Drained here: it takes no more work until it is undrained here. The runtime may drain it besides"`
	Bound         bool               `json:"bound" doc:"Only the agent's own token, or an admin, may write it"`
	// Token is the digest of the token it is bound to; never shown.
	Token string `json:"-"`
}

// Said is a text that an agent gives of itself. "" is one that never did, and null in
// JSON.
type Said string

// MarshalJSON writes null for what is not known.
func (s Said) MarshalJSON() ([]byte, error) {
	if s == "" {
		return []byte("null"), nil
	}
	return json.Marshal(string(s))
}

// Load is what an agent says it is doing.
type Load struct {
	Running int     `json:"running" required:"false" minimum:"0" maximum:"100000" doc:"Tasks running now"`
	Queued  int     `json:"queued" required:"false" minimum:"0" maximum:"100000" doc:"Tasks taken and not yet started"`
	CPU     float64 `json:"cpu" required:"false" minimum:"0" doc:"Load average of one minute"`
	Memory  float64 `json:"memory" required:"false" minimum:"0" maximum:"1" doc:"Share of memory in use"`
}

// AgentPatch is what a registration or a heartbeat says of an agent. A nil field
// leaves what is stored, and is the default for a new agent.
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

// CapabilitiesPatch is a partly given bloom.Capabilities.
type CapabilitiesPatch struct {
	ClaudeCLI      *bool
	MaxConcurrency *int
	Labels         *[]string
}

// NewAgent is an agent before anything is known of it but its name. Like the
// runtime, it is taken to run claude, one task at a time, until it says otherwise.
func NewAgent(name string, now time.Time) Agent {
	return Agent{
		Name: name, Status: bloom.WorkerUnknown, NodeID: name, RegisteredAt: ToSeconds(now),
		IntervalSec:  DefaultInterval.Seconds(),
		Capabilities: bloom.Capabilities{ClaudeCLI: true, MaxConcurrency: 1, Labels: []string{}},
		IPAddrs:      []string{},
	}
}

// Apply writes what the patch gives over the agent.
func (p AgentPatch) Apply(a *Agent) {
	set(&a.URL, p.URL)
	set(&a.Status, p.Status)
	set(&a.Load, p.Load)
	set(&a.NodeID, p.NodeID)
	set(&a.IPAddrs, p.IPAddrs)
	set(&a.ObsCount, (*bloom.ObsCount)(p.ObsCount))
	set(&a.DBSHA, p.DBSHA)
	set(&a.AgentVersion, (*Said)(p.AgentVersion))
	set(&a.OSInfo, p.OSInfo)
	set(&a.InstallMethod, (*Said)(p.InstallMethod))
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

// ContactEvery is how often a contact with an agent whose heartbeat is still
// waiting is to be noted, for it not to count as silent.
func ContactEvery(a Agent) time.Duration {
	return time.Duration(a.IntervalSec * float64(time.Second) * (silentIntervals - 1))
}

// Uptime is since when this control plane serves, and until when one served
// before. The time between the two is an outage in which no agent could be
// heard, and does not count as an agent's silence: otherwise every restart would
// call the whole fleet offline.
type Uptime struct {
	LastAlive time.Time // zero when nobody served before
	Started   time.Time
}

// Liveness returns the status the agent has at now. One that never sent a
// heartbeat keeps the status it was posted with; one that has, and is silent for
// longer than three of its intervals, is offline.
func (u Uptime) Liveness(a Agent, now time.Time) bloom.WorkerStatus {
	if a.HeartbeatAt == nil {
		return a.Status
	}
	if u.silence(*a.HeartbeatAt, ToSeconds(now)) > silentIntervals*a.IntervalSec {
		return bloom.WorkerOffline
	}
	return a.Status
}

func (u Uptime) silence(beat, now Seconds) Seconds {
	silent := now - beat
	started := ToSeconds(u.Started)
	if u.LastAlive.IsZero() || beat >= started {
		return silent
	}
	return silent - max(0, started-max(beat, ToSeconds(u.LastAlive)))
}
