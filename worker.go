package bloom

import (
	"slices"
	"strconv"
	"strings"
)

// WorkerStatus is what is known of a worker's health.
type WorkerStatus string

// The statuses of a worker.
const (
	WorkerOnline  WorkerStatus = "online"
	WorkerOffline WorkerStatus = "offline"
	WorkerSyncing WorkerStatus = "syncing"
	WorkerError   WorkerStatus = "error"
	WorkerUnknown WorkerStatus = "unknown"
)

// MaxWorkerName is the most characters in a worker's name.
const MaxWorkerName = 128

// MaxConcurrency is the most tasks one worker may run at once.
const MaxConcurrency = 32

// Bounds of what workers may fill: lists of workers are read whole.
const (
	// MaxWorkers is how many workers there may be before a worker's key makes no new one
	// known, and how many of the control plane's are taken over.
	MaxWorkers = 10_000
	// MaxWorkerLists is the most bytes of a worker's lists together: labels, addresses and
	// agents.
	MaxWorkerLists = 16 << 10
)

// Capabilities is what a worker can do.
type Capabilities struct {
	ClaudeCLI      bool     `json:"claude_cli" required:"false" default:"true" doc:"The worker can run the claude command line"`
	MaxConcurrency int      `json:"max_concurrency" required:"false" minimum:"1" maximum:"32" default:"1" doc:"Tasks it runs at once"`
	Labels         []string `json:"labels" required:"false" nullable:"false" maxItems:"64" itemMaxLength:"128" doc:"What tasks may ask for"`
}

// ObsCount is how many observations a worker's memory database holds. 0 is a worker
// that never said, and null in JSON.
type ObsCount int64

// MarshalJSON writes null for a count that is not known.
func (n ObsCount) MarshalJSON() ([]byte, error) {
	if n == 0 {
		return []byte("null"), nil
	}
	return strconv.AppendInt(nil, int64(n), 10), nil
}

// What is shown of a worker that did not say.
const (
	UnknownVersion = "unknown"
	UnknownInstall = "manual"
)

// Worker is a node that runs tasks. Its id is its registered name.
type Worker struct {
	ID            string       `json:"id"`
	NodeID        string       `json:"node_id"`
	URL           string       `json:"url"`
	Status        WorkerStatus `json:"status" enum:"online,offline,syncing,error,unknown"`
	Capabilities  Capabilities `json:"capabilities"`
	LastHeartbeat *int64       `json:"last_heartbeat" doc:"Last contact from any side, Unix milliseconds; null when there was none"`
	IPAddrs       []string     `json:"ip_addrs" nullable:"false"`
	ObsCount      ObsCount     `json:"obs_count" nullable:"true" doc:"Observations in its memory database; null when it never said"`
	DBSHA         string       `json:"db_sha"`
	RegisteredAt  int64        `json:"registered_at" doc:"Unix milliseconds"`
	ActiveLeases  int          `json:"active_leases"`
	AgentVersion  string       `json:"agent_version"`
	OSInfo        string       `json:"os_info"`
	InstallMethod string       `json:"install_method"`
	Draining      bool         `json:"draining" doc:"Takes no more work: drained at the runtime, at membridge, or at both"`
	RuntimeDrain  bool         `json:"runtime_drain" doc:"Drained at the runtime, and to be undrained there"`
	Agents        []string     `json:"agents" nullable:"false" doc:"The agents that its claude knew when it registered: what tasks may name in agent_slug"`
	ControlDrain  bool         `json:"membridge_drain" doc:"Drained at membridge, by what the runtime last heard, and to be undrained there"`
}

// WorkerSpec is a direct registration.
type WorkerSpec struct {
	Name          string       `json:"name" minLength:"1" maxLength:"128"`
	URL           string       `json:"url" required:"false" maxLength:"2048"`
	Status        WorkerStatus `json:"status" required:"false" enum:"online,offline,syncing,error,unknown" default:"online"`
	Capabilities  Capabilities `json:"capabilities" required:"false"`
	IPAddrs       []string     `json:"ip_addrs" required:"false" nullable:"false" maxItems:"64" itemMaxLength:"128"`
	AgentVersion  string       `json:"agent_version" required:"false" maxLength:"128"`
	OSInfo        string       `json:"os_info" required:"false" maxLength:"256"`
	InstallMethod string       `json:"install_method" required:"false" maxLength:"64"`
	Agents        []string     `json:"agents" required:"false" nullable:"false" maxItems:"256" itemMaxLength:"128" doc:"The agents that its claude knows"`
	InstanceID    string       `json:"instance_id" required:"false" maxLength:"128" doc:"Identifies the living process, so that two cannot share a name"`
	Draining      *bool        `json:"draining,omitempty" required:"false" doc:"Whether the control plane drains the worker, as the worker last heard; absent leaves what is known. What the runtime drained stays drained"`

	// MustName is set for callers whose key is a worker's: while a known process of
	// the worker is alive, only a caller with its instance id may register it.
	MustName bool `json:"-"`
}

// Check says what is wrong with a registration that no limit of a field states.
func (s WorkerSpec) Check() (wrong []FieldError) {
	if strings.ContainsFunc(s.Name, func(r rune) bool { return r < ' ' || r == '/' }) || s.Name == "." || s.Name == ".." {
		wrong = append(wrong, FieldError{Field: "name", Message: "must fit in an address: no slash and no control characters"})
	}
	if ListBytes(s.Capabilities.Labels, s.IPAddrs, s.Agents) > MaxWorkerLists {
		wrong = append(wrong, FieldError{Field: "agents", Message: "must have, with labels and ip_addrs, at most " + strconv.Itoa(MaxWorkerLists) + " bytes"})
	}
	return wrong
}

// Bytes is how long all texts of a registration are together.
func (s WorkerSpec) Bytes() int {
	return ListBytes(s.Capabilities.Labels, s.IPAddrs, s.Agents, []string{s.Name, s.URL, s.AgentVersion, s.OSInfo, s.InstallMethod})
}

// ListBytes is how long the texts of lists are together.
func ListBytes(lists ...[]string) (n int) {
	for _, list := range lists {
		for _, text := range list {
			n += len(text)
		}
	}
	return n
}

// Free is how many more tasks the worker can take.
func (w Worker) Free() int { return max(0, w.Capabilities.MaxConcurrency-w.ActiveLeases) }

// CanTake reports whether the worker may be given a task that asks for the
// labels: it is online, runs claude, has a free slot, is not draining and
// carries them all.
func (w Worker) CanTake(labels []string) bool {
	return w.Status == WorkerOnline && w.Capabilities.ClaudeCLI && !w.Draining &&
		w.Free() > 0 && w.Capabilities.Carries(labels)
}

// Carries reports whether every one of labels is among the capabilities'.
func (c Capabilities) Carries(labels []string) bool {
	for _, want := range labels {
		if !slices.Contains(c.Labels, want) {
			return false
		}
	}
	return true
}
