package registry

import (
	"context"
	"errors"
	"time"

	"github.com/bloom-runtime/bloom"
)

// Errors that callers branch on.
var (
	ErrNoAgent   = bloom.NotFound("Agent")
	ErrNoProject = bloom.NotFound("Project")
	ErrNoJob     = bloom.NotFound("Job")
	ErrExists    = bloom.Conflict("Project already exists")
	ErrTwins     = bloom.Conflict("Several projects have this name; use the canonical_id instead")
	ErrFull      = bloom.Conflict("There are already %d agents or nodes, the maximum for the agent key; an admin can delete unused ones", bloom.MaxWorkers)
	ErrEpoch     = &bloom.Error{Kind: bloom.KindConflict, Code: "epoch_changed", Message: "Another primary was selected in the meantime; read the leadership again"}
)

// IsMissing reports whether err means that something does not exist.
func IsMissing(err error) bool {
	var e *bloom.Error
	return errors.As(err, &e) && e.Kind == bloom.KindNotFound
}

// HeartbeatResult is the result of recording an agent's heartbeat.
type HeartbeatResult struct {
	Agent Agent
	// Jobs are the agent's jobs without a reported outcome, oldest first.
	Jobs []Job
}

// Leadership is a project's leadership.
type Leadership struct {
	Current *Term // nil when no node was ever selected
	Nodes   []Node
}

// Counts are the numbers in the health report.
type Counts struct {
	Projects int
	Agents   int
}

// Store stores the registry. Every method is atomic and safe for concurrent use; what it returned
// without an error survives a crash. Several servers may share one store if its kind allows it. All
// methods use the store's own clock (Now), so that replicas agree.
//
// Statuses are returned as last reported; readers derive liveness (Uptime.Liveness), because it
// changes with time. Errors are the package's Err values or wrap the inner cause.
type Store interface {
	// Now returns the store's time, which decides expiry.
	Now() time.Time

	// PutAgent creates or updates an agent; created reports which. Proof.Bind decides whether the
	// caller may: ErrNeedsToken, ErrOtherToken.
	PutAgent(ctx context.Context, name string, patch AgentPatch, by Proof) (agent Agent, created bool, err error)
	// Heartbeat records a heartbeat and its report on jobs, and returns the agent's open jobs,
	// which count as delivered from then on. Reports on jobs that are final, unknown or another
	// agent's are ignored. ErrNoAgent, and the errors of Proof.Bind.
	Heartbeat(ctx context.Context, name string, patch AgentPatch, report JobsReport, by Proof) (HeartbeatResult, error)
	// OpenJobs returns the agent's open jobs as Heartbeat does, without a heartbeat.
	OpenJobs(ctx context.Context, agent string) ([]Job, error)
	// Touch records the contact of an agent whose heartbeat is waiting. ErrNoAgent.
	Touch(ctx context.Context, name string) error
	// Answered records that an agent responded to a call: it is online. ErrNoAgent.
	Answered(ctx context.Context, name string) error
	// SetDrain drains or undrains an agent. ErrNoAgent.
	SetDrain(ctx context.Context, name string, drain bool) (Agent, error)
	// DrainLevels returns whether each of the named agents is drained, leaving out unknown names.
	DrainLevels(ctx context.Context, names []string) (map[string]bool, error)
	// Agent returns one agent. ErrNoAgent.
	Agent(ctx context.Context, name string) (Agent, error)
	// Agents returns the agents by name, from after that name on, at most limit; 0 means all.
	Agents(ctx context.Context, after string, limit int) ([]Agent, error)
	// DeleteAgent deletes an agent and fails its open jobs. ErrNoAgent.
	DeleteAgent(ctx context.Context, name string) error

	// CreateProject creates a manual project; one known only from heartbeats becomes manual.
	// ErrExists.
	CreateProject(ctx context.Context, name string) (Project, error)
	// Projects returns all projects by name, with their number of nodes.
	Projects(ctx context.Context) ([]Project, error)
	// DeleteProject deletes the project with that canonical id or name, with its nodes, and ends
	// its term: if it comes back, it has no primary. Terms stay in the history, because epochs must
	// keep growing. ErrNoProject, ErrTwins.
	DeleteProject(ctx context.Context, key string) error

	// NodeHeartbeat records a node's heartbeat, creates its project when it names one, and returns
	// the current term, nil without one. An existing project keeps its name. The errors of
	// Proof.Bind.
	NodeHeartbeat(ctx context.Context, h NodeHeartbeat) (*Term, error)
	// Leadership returns a project's term and its nodes by id, without roles.
	Leadership(ctx context.Context, canonicalID string) (Leadership, error)
	// Select starts a new term. The node need not have reported yet. Of two concurrent selections
	// the one with the higher epoch wins. ErrEpoch.
	Select(ctx context.Context, s Selection) (Term, error)
	// History returns a project's terms, newest first. limit is at most 200.
	History(ctx context.Context, canonicalID string, limit int) ([]Term, error)

	// AddJob stores a job with its id and state.
	AddJob(ctx context.Context, job Job) error
	// FinishJob ends a job that is not yet final. ErrNoJob when it is unknown.
	FinishJob(ctx context.Context, report JobReport) (Job, error)
	// Job returns one job. ErrNoJob.
	Job(ctx context.Context, id string) (Job, error)
	// Jobs returns the history, newest first.
	Jobs(ctx context.Context, filter JobFilter) ([]Job, error)
	// AgentsWithQueuedJobs returns the agents with a queued job.
	AgentsWithQueuedJobs(ctx context.Context) ([]string, error)
	// ExpireJobs fails the open jobs without any report since a time, and returns how many.
	ExpireJobs(ctx context.Context, before time.Time, detail string) (int, error)
	// TrimJobs deletes final jobs beyond the newest keep.
	TrimJobs(ctx context.Context, keep int) (int, error)

	// Counts returns the numbers in the health report.
	Counts(ctx context.Context) (Counts, error)
	// MarkAlive records that a control plane is serving, and returns when one last did, zero when
	// never.
	MarkAlive(ctx context.Context) (before time.Time, err error)
	// Close waits for accepted writes and closes the store.
	Close() error
}
