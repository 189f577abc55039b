package bloom

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// WorkerStatus is the health of a worker.
type WorkerStatus string

// The statuses of a worker.
const (
	WorkerOnline  WorkerStatus = "online"
	WorkerOffline WorkerStatus = "offline"
	WorkerSyncing WorkerStatus = "syncing"
	WorkerError   WorkerStatus = "error"
	WorkerUnknown WorkerStatus = "unknown"
)

// MaxConcurrency is the most tasks one worker may run at once.
const MaxConcurrency = 32

// Limits of what workers can store, because lists of workers are read into memory.
const (
	// MaxWorkers is how many workers there may be before a worker's key can register no new
	// one, and how many of the control plane's agents become workers.
	MaxWorkers = 10_000
	// MaxWorkerLists is the most bytes of a worker's lists together: labels, addresses and
	// agents.
	MaxWorkerLists = 16 << 10
)

// Capabilities describes what a worker can do.
type Capabilities struct {
	ClaudeCLI      bool     `json:"claude_cli" required:"false" default:"true" doc:"The worker can run the claude command line"`
	MaxConcurrency int      `json:"max_concurrency" required:"false" minimum:"1" maximum:"32" default:"1" doc:"Tasks it runs at once"`
	Labels         []string `json:"labels" required:"false" nullable:"false" maxItems:"64" itemMaxLength:"128" doc:"Labels that tasks may require"`
}

// ObsCount is the number of observations in a worker's memory database. 0 means unknown, and is
// null in JSON.
type ObsCount int64

// MarshalJSON encodes an unknown count as null.
func (n ObsCount) MarshalJSON() ([]byte, error) {
	if n == 0 {
		return []byte("null"), nil
	}
	return strconv.AppendInt(nil, int64(n), 10), nil
}

// Worker is a node that runs tasks. Its id is its registered name.
type Worker struct {
	ID            string       `json:"id"`
	NodeID        string       `json:"node_id"`
	URL           string       `json:"url"`
	Status        WorkerStatus `json:"status" enum:"online,offline,syncing,error,unknown"`
	Capabilities  Capabilities `json:"capabilities"`
	LastHeartbeat *int64       `json:"last_heartbeat" doc:"Last contact from any side, Unix milliseconds; null when there was none"`
	IPAddrs       []string     `json:"ip_addrs" nullable:"false"`
	ObsCount      ObsCount     `json:"obs_count" nullable:"true" doc:"Observations in its memory database; null when unknown"`
	DBSHA         string       `json:"db_sha"`
	RegisteredAt  int64        `json:"registered_at" doc:"Unix milliseconds"`
	ActiveLeases  int          `json:"active_leases"`
	AgentVersion  string       `json:"agent_version"`
	OSInfo        string       `json:"os_info"`
	InstallMethod string       `json:"install_method"`
	Draining      bool         `json:"draining" doc:"Takes no new work: drained at the runtime, at membridge, or at both"`
	RuntimeDrain  bool         `json:"runtime_drain" doc:"Drained at the runtime; undrain it there"`
	Agents        []string     `json:"agents" nullable:"false" doc:"The agents that its claude had when it registered: the values for agent_slug"`
	ControlDrain  bool         `json:"membridge_drain" doc:"Drained at membridge, as last reported; undrain it there"`
	Setup         *WorkerSetup `json:"setup,omitempty" doc:"How its claude runs, as last reported; absent when it never was"`
	Pause         *Pause       `json:"pause,omitempty" doc:"Why it takes no tasks for a while; absent when it takes tasks"`

	// Contact is the last contact of its own process, Unix milliseconds; 0 when there was none.
	Contact int64 `json:"-"`
}

// WorkerSetup is how a worker runs claude.
type WorkerSetup struct {
	Folder         string `json:"folder" required:"false" maxLength:"4096" doc:"Where claude works"`
	PerContext     bool   `json:"per_context" required:"false" doc:"Each context has a folder of its own below it"`
	PermissionMode string `json:"permission_mode" required:"false" maxLength:"32" doc:"What claude may do without asking"`
	Claude         string `json:"claude" required:"false" maxLength:"128" doc:"claude's version; empty when it cannot be run"`
	Login          string `json:"login" required:"false" enum:"api_key,token,account,none" default:"none" doc:"Which credentials the worker has for claude: an API key, a token, or those of a person who logged in; none were found otherwise, as with a provider that the folder's settings name"`
}

// Pause is why a worker takes no tasks for a while: the model's provider refuses its credentials,
// or limits them.
type Pause struct {
	Until  int64      `json:"until" minimum:"1" doc:"When it takes a task again, Unix milliseconds"`
	Class  ErrorClass `json:"class" enum:"auth,rate_limited" doc:"auth: its credentials are refused or missing; rate_limited: they are limited"`
	Reason string     `json:"reason" minLength:"1" maxLength:"1024" doc:"For people"`
}

// Claims reports whether the worker's own process is in contact with the runtime. An agent that
// only membridge reports is online, but claims no tasks.
func (w Worker) Claims() bool {
	return w.Contact > 0 && w.LastHeartbeat != nil && *w.LastHeartbeat-w.Contact < OfflineAfter.Milliseconds()
}

// WorkerSpec is a worker's registration.
type WorkerSpec struct {
	Name          string       `json:"name" minLength:"1" maxLength:"128"`
	URL           string       `json:"url" required:"false" maxLength:"2048"`
	Status        WorkerStatus `json:"status" required:"false" enum:"online,offline,syncing,error,unknown" default:"online"`
	Capabilities  Capabilities `json:"capabilities" required:"false"`
	IPAddrs       []string     `json:"ip_addrs" required:"false" nullable:"false" maxItems:"64" itemMaxLength:"128"`
	AgentVersion  string       `json:"agent_version" required:"false" maxLength:"128"`
	OSInfo        string       `json:"os_info" required:"false" maxLength:"256"`
	InstallMethod string       `json:"install_method" required:"false" maxLength:"64"`
	Agents        []string     `json:"agents" required:"false" nullable:"false" maxItems:"256" itemMaxLength:"128" doc:"The agents that its claude has"`
	InstanceID    string       `json:"instance_id" required:"false" maxLength:"128" doc:"Identifies the process, so that two cannot share a name"`
	Draining      *bool        `json:"draining,omitempty" required:"false" doc:"Whether the control plane drains the worker, as last reported to the worker; absent: unchanged. A drain by the runtime stays in force"`
	Setup         *WorkerSetup `json:"setup,omitempty" required:"false" doc:"How its claude runs"`
	// Pause is nil for a worker that takes tasks.
	Pause *Pause `json:"pause,omitempty" required:"false" doc:"Why it takes no tasks for a while; absent when it takes tasks"`

	// MustName is set for callers with a worker key: while a known instance of the worker is alive,
	// only that instance may register it.
	MustName bool `json:"-"`
}

// Check returns what is wrong with a registration beyond the limits of its fields.
func (s WorkerSpec) Check() (wrong []FieldError) {
	if strings.ContainsFunc(s.Name, func(r rune) bool { return r < ' ' || r == '/' }) || s.Name == "." || s.Name == ".." {
		wrong = append(wrong, FieldError{Field: "name", Message: "must fit into a URL: no slash and no control characters"})
	}
	if ListBytes(s.Capabilities.Labels, s.IPAddrs, s.Agents) > MaxWorkerLists {
		wrong = append(wrong, FieldError{Field: "agents", Message: "must have, with labels and ip_addrs, at most " + strconv.Itoa(MaxWorkerLists) + " bytes"})
	}
	return wrong
}

// Bytes returns the total length of a registration's texts.
func (s WorkerSpec) Bytes() int {
	return ListBytes(s.Capabilities.Labels, s.IPAddrs, s.Agents, []string{s.Name, s.URL, s.AgentVersion, s.OSInfo, s.InstallMethod})
}

// ListBytes returns the total length of the texts of lists.
func ListBytes(lists ...[]string) (n int) {
	for _, list := range lists {
		for _, text := range list {
			n += len(text)
		}
	}
	return n
}

// Free returns how many more tasks the worker can take.
func (w Worker) Free() int { return max(0, w.Capabilities.MaxConcurrency-w.ActiveLeases) }

// CanTake reports whether the worker may get a task that requires these labels: it is online,
// runs claude, has a free slot, is neither draining nor paused, and has all labels.
func (w Worker) CanTake(labels []string) bool {
	return w.Status == WorkerOnline && w.Capabilities.ClaudeCLI && !w.Draining && w.Pause == nil &&
		w.Free() > 0 && w.Capabilities.Carries(labels)
}

// Carries reports whether the capabilities include all of the labels.
func (c Capabilities) Carries(labels []string) bool {
	for _, want := range labels {
		if !slices.Contains(c.Labels, want) {
			return false
		}
	}
	return true
}

// OfflineAfter is how long a worker may go without contact before it is offline.
const OfflineAfter = 60 * time.Second
