package contract

import (
	"cmp"
	"context"
	"path"

	"github.com/bloom-runtime/bloom"
)

// TaskChange returns the notification of a task's new state. workerID is the worker that changed
// it; when it is empty, the task's current or last worker is used. The caller adds the labels of a
// queued task.
func TaskChange(taskID string, t bloom.TaskState, workerID string) bloom.Change {
	c := bloom.Change{Kind: bloom.ChangeTask, TaskID: taskID, WorkerID: workerID, TaskStatus: t.Status, CancelRequested: t.CancelRequested}
	if c.WorkerID == "" && t.WorkerID != nil {
		c.WorkerID = *t.WorkerID
	}
	if t.Status == bloom.TaskQueued {
		c.RunAt = t.RunAt
	}
	return c
}

// HeldBack counts queued tasks that workers cannot start yet.
type HeldBack struct {
	Tasks int64 // the count is bounded
	Since int64 // since when the oldest of them waits, Unix milliseconds
	Until int64 // GateDelayed: when the first of them starts, Unix milliseconds
}

// ResultsWithOutput is for how many of a task's results Store.Results reads the output, which may
// be as long as InlineContentLimit.
const ResultsWithOutput = 16

// MaxEventPageBytes bounds the data of the events that one call of Store.Events returns, in bytes:
// the event that reaches it is the last.
const MaxEventPageBytes = 256 << 10

// NewTask is a task to create.
type NewTask struct {
	ID   string // UUIDv7, chosen by the caller so that a repeated call is the same task
	Spec bloom.TaskSpec
	// IdempotencyScope is the scope of Spec.IdempotencyKey: callers with different scopes may use the
	// same key for different tasks. Empty when there is no key.
	IdempotencyScope string
	// Attachments become artifacts of the task. Their content has already been stored.
	Attachments []NewArtifact
	// BodyHash is the SHA-256 of the normalised body; a replay of the key must have the same one.
	BodyHash string
	Actor    string // who creates it, for the audit and for QueuedBy
	// RequestID is the id of the request that creates it; empty when none does.
	RequestID string
	// Full makes the store refuse the task with ErrQueueFull unless it already exists: a replay
	// gets its answer even when the queue is full.
	Full bool
}

// QueueDepth counts the waiting tasks with the same labels.
type QueueDepth struct {
	Labels []string
	Tasks  int64
	Since  int64 // when the longest-waiting task could first start, Unix milliseconds
}

// Task returns the task that is stored for n at the time now, in Unix milliseconds. The spec has
// clean texts and every default filled.
func (n NewTask) Task(now int64) bloom.Task {
	s := n.Spec
	t := bloom.Task{
		ID: n.ID, ContextID: s.ContextID, AgentSlug: s.AgentSlug, Prompt: s.Prompt,
		ContextHints: s.ContextHints, Policy: s.Policy, DesiredFormat: s.DesiredFormat,
		CreatedAt: now, Priority: s.Priority, Labels: s.Labels,
		TaskState: bloom.TaskState{
			Status: bloom.TaskQueued, UpdatedAt: now, MaxAttempts: s.MaxAttempts, RunAt: cmp.Or(s.RunAt, now+s.DelayMS),
		},
	}
	if s.IdempotencyKey != "" {
		t.IdempotencyKey = &s.IdempotencyKey
	}
	for _, a := range n.Attachments {
		t.Attachments = append(t.Attachments, bloom.Attachment{Name: path.Base(a.Path), Size: a.Size, SHA256: a.SHA256, ArtifactID: a.ID})
	}
	if n.RequestID != "" {
		t.RequestID = &n.RequestID
	}
	return t
}

// TaskStore keeps tasks and their streams.
type TaskStore interface {
	// CreateTask queues a task. The same ID again, or the same idempotency key with the same body
	// hash, returns the task as it is now and replayed true; the key with another body is
	// ErrIdempotency.
	CreateTask(ctx context.Context, t NewTask) (task bloom.Task, replayed bool, err error)
	Task(ctx context.Context, id string) (bloom.Task, error)
	// QueuePlace returns what, apart from the workers, decides when a queued task starts.
	QueuePlace(ctx context.Context, id string) (QueuePlace, error)
	// Tasks lists tasks, newest first. The work of one call is bounded: a selective filter may
	// return a short page with a next cursor.
	Tasks(ctx context.Context, q bloom.TaskQuery) (tasks []bloom.Task, next bloom.Cursor, err error)
	// Cancel and Requeue follow the rules of the same names in internal/lifecycle.
	Cancel(ctx context.Context, id, actor string) (bloom.Task, error)
	Requeue(ctx context.Context, id, actor string) (bloom.Task, error)
	// AppendEvents appends a worker's events under its current lease and returns the last number of
	// the stream. It ignores events whose worker Seq is already stored for this lease. Another
	// lease gets ErrLeaseLost and changes nothing.
	AppendEvents(ctx context.Context, taskID, leaseID string, events []bloom.WorkerEvent) (last int64, err error)
	// Events lists a task's stream after the given number, oldest first. It returns fewer than
	// limit when they reach MaxEventPageBytes.
	Events(ctx context.Context, taskID string, after int64, limit int) ([]bloom.Event, error)
	// Results lists a task's results, newest first. Output is nil when it is in the blob store with
	// the result's artifact, and after the newest ResultsWithOutput.
	Results(ctx context.Context, taskID string) ([]bloom.Result, error)
	// Stats returns counts that are kept up to date; it never scans the tasks.
	Stats(ctx context.Context) (bloom.Stats, error)
	// QueuedBy counts the queued tasks that an actor created, up to limit.
	QueuedBy(ctx context.Context, actor string, limit int64) (int64, error)
	// QueueDepths groups the tasks that workers could start now by their labels, in any order: at
	// most maxSets sets of labels, and for each counts up to maxTasks tasks.
	QueueDepths(ctx context.Context, maxSets, maxTasks int) ([]QueueDepth, error)
	// HeldBack counts the queued tasks behind GateDelayed or GateOrdered, up to limit.
	HeldBack(ctx context.Context, gate Gate, limit int) (HeldBack, error)
}

// QueuePlace is what the store knows about when a queued task can start.
type QueuePlace struct {
	Gate      Gate   // empty when the task is no longer queued
	Before    string // the earliest unfinished ordered task before it in its context; empty: none
	Preferred string // the worker that the task is reserved for; empty: none
	Until     int64  // of Preferred, Unix milliseconds
	Skipped   int64  // until when this server skips it because its row could not be changed, Unix milliseconds; 0: it does not
}

// Gate is whether a queued task may be claimed, and why not.
type Gate string

// The gates of a queued task.
const (
	GateOpen    Gate = "open"
	GateDelayed Gate = "delayed" // its run_at is in the future
	GateOrdered Gate = "ordered" // an earlier ordered task of its context has not ended
	// GateApproval: it is suspended until a person has decided.
	GateApproval Gate = "approval"
)
