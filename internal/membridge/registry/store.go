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
	ErrTwins     = bloom.Conflict("Several projects have this name; give the canonical_id instead")
	ErrFull      = bloom.Conflict("There are %d agents or nodes already, which is the most that the agent key may make known; an admin removes those that are gone", bloom.MaxWorkers)
	ErrEpoch     = &bloom.Error{Kind: bloom.KindConflict, Code: "epoch_changed", Message: "Another primary was selected in the meantime; look at the leadership again"}
)

// IsMissing reports whether err says that a thing does not exist.
func IsMissing(err error) bool {
	var e *bloom.Error
	return errors.As(err, &e) && e.Kind == bloom.KindNotFound
}

// BeatResult is what the store knows after an agent's heartbeat.
type BeatResult struct {
	Agent Agent
	// Jobs are the orders the agent has not yet reported on, oldest first.
	Jobs []Job
}

// Standing is a project's leadership.
type Standing struct {
	Current *Term // nil when nobody was ever selected
	Nodes   []Node
}

// Counts are the figures of the health route.
type Counts struct {
	Projects int
	Agents   int
}

// Store keeps the registry. Every method is safe for concurrent use and atomic;
// what it returned without an error survives the death of the process at once.
// Any number of servers may share one store when its kind allows it. All methods
// read the time from the store's own clock (Now), so that replicas agree.
//
// Statuses are returned as last reported: liveness is the reader's to work out
// (Uptime.Liveness), because it changes with time and not with a write. Errors
// are the package's Err values or wrap the inner cause.
type Store interface {
	// Now is the store's time, by which everything expires.
	Now() time.Time

	// PutAgent registers an agent or updates a known one; created tells which. Who
	// may, Proof.Bind decides: ErrNeedsToken, ErrOtherToken. ErrFull when there are
	// bloom.MaxWorkers and the new one is not an admin's.
	PutAgent(ctx context.Context, name string, patch AgentPatch, by Proof) (agent Agent, created bool, err error)
	// Beat records a heartbeat and what it says of jobs, and hands out the agent's
	// open jobs, which count as delivered from then on. What is said of a job that is
	// final, unknown or another agent's changes nothing. ErrNoAgent, and the errors of
	// Proof.Bind.
	Beat(ctx context.Context, name string, patch AgentPatch, said JobsSaid, by Proof) (BeatResult, error)
	// OpenJobs hands out the agent's open jobs as Beat does, without a heartbeat.
	OpenJobs(ctx context.Context, agent string) ([]Job, error)
	// Touch notes a contact with an agent that beats, as its heartbeat that is still
	// waiting is one. ErrNoAgent.
	Touch(ctx context.Context, name string) error
	// Answered notes that an agent answered a call: it is online. ErrNoAgent.
	Answered(ctx context.Context, name string) error
	// SetDrain drains an agent, or undrains it. ErrNoAgent.
	SetDrain(ctx context.Context, name string, drain bool) (Agent, error)
	// DrainLevels says of each of the names that an agent has whether it is drained;
	// the others are left out. The names are such as agents have had.
	DrainLevels(ctx context.Context, names []string) (map[string]bool, error)
	// Agent returns one agent. ErrNoAgent.
	Agent(ctx context.Context, name string) (Agent, error)
	// Agents returns all agents by name.
	Agents(ctx context.Context) ([]Agent, error)
	// DeleteAgent forgets an agent and fails its open jobs. ErrNoAgent.
	DeleteAgent(ctx context.Context, name string) error

	// CreateProject makes a manual project; one known only by heartbeats becomes
	// manual. ErrExists.
	CreateProject(ctx context.Context, name string) (Project, error)
	// Projects returns all projects by name, their nodes counted.
	Projects(ctx context.Context) ([]Project, error)
	// DeleteProject deletes the project of that canonical id or name with its nodes,
	// and ends its term: should it come back, nobody leads it. Terms stay in the
	// history, since epochs must go on growing. ErrNoProject, ErrTwins.
	DeleteProject(ctx context.Context, key string) error

	// NodeBeat records a node's heartbeat, registers its project when it names
	// one, and returns the current term, nil when there is none. A project keeps the
	// name that it has. The errors of Proof.Bind, and ErrFull as of PutAgent.
	NodeBeat(ctx context.Context, beat NodeBeat) (*Term, error)
	// Standing returns a project's term and its nodes by id, without roles.
	Standing(ctx context.Context, canonicalID string) (Standing, error)
	// Select begins a new term. The node need not have reported yet. Of two at once
	// one gets the higher epoch and stands. ErrEpoch.
	Select(ctx context.Context, s Selection) (Term, error)
	// History returns a project's terms, newest first. limit is at most 200.
	History(ctx context.Context, canonicalID string, limit int) ([]Term, error)

	// AddJob records a job as it is given, id and state included.
	AddJob(ctx context.Context, job Job) error
	// FinishJob ends a job that is not yet final. ErrNoJob when it is unknown.
	FinishJob(ctx context.Context, report JobReport) (Job, error)
	// Job returns one job. ErrNoJob.
	Job(ctx context.Context, id string) (Job, error)
	// Jobs returns the history, newest first.
	Jobs(ctx context.Context, filter JobFilter) ([]Job, error)
	// AgentsWithOrders returns the agents that have a queued job.
	AgentsWithOrders(ctx context.Context) ([]string, error)
	// ExpireJobs fails the open jobs that nothing was heard of since the moment, and
	// returns how many.
	ExpireJobs(ctx context.Context, before time.Time, detail string) (int, error)
	// TrimJobs deletes final jobs beyond the newest keep.
	TrimJobs(ctx context.Context, keep int) (int, error)

	// Counts returns the figures of the health route.
	Counts(ctx context.Context) (Counts, error)
	// MarkAlive records that a control plane serves now, and returns when one
	// last did, zero when never.
	MarkAlive(ctx context.Context) (before time.Time, err error)
	// Close waits for what was accepted and closes the store.
	Close() error
}
