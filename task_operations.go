package bloom

import "context"

// Audit actions of tasks. The first four exist in the earlier Node implementation, too.
const (
	ActionTaskCreated   = "task_created"
	ActionTaskLeased    = "task_leased"
	ActionTaskCompleted = "task_completed" // a completion was accepted, success or error
	ActionTaskRequeued  = "task_requeued"
	ActionTaskStarted   = "task_started"
	ActionTaskRetried   = "task_retried"
	ActionTaskReleased  = "task_released"
	ActionTaskCancelled = "task_cancelled" // cancelled, or asked to stop; see data.status
	ActionTaskExpired   = "task_expired"
	ActionTaskDead      = "task_dead"
	ActionTaskImported  = "task_imported" // from the earlier implementation; its older entries have no data
)

// Types of the runtime's own events in a task's stream. Workers add events of their own types:
// "text", "tool_use", "tool_result", "log" and others.
const (
	EventCreated         = "created"
	EventLeased          = "leased"
	EventStarted         = "started"
	EventRetried         = "retried"
	EventReleased        = "released"
	EventExpired         = "expired"
	EventTranscript      = "transcript_refused" // the turn was not added to the context's conversation
	EventWorkspace       = "workspace_refused"  // the working folder was not saved after the turn
	EventArtifact        = "artifact"           // a file was added
	EventRequeued        = "requeued"
	EventCancelRequested = "cancel_requested"
	EventCompleted       = "completed"
	EventFailed          = "failed"
	EventDead            = "dead"
	EventCancelled       = "cancelled"
)

// TaskStore keeps tasks and their streams.
type TaskStore interface {
	// CreateTask queues a task. The same ID again, or the same idempotency key with the same body
	// hash, returns the task as it is now and replayed true; the key with another body is
	// ErrIdempotency.
	CreateTask(ctx context.Context, t NewTask) (task Task, replayed bool, err error)
	Task(ctx context.Context, id string) (Task, error)
	// QueuePlace returns what, apart from the workers, decides when a queued task starts.
	QueuePlace(ctx context.Context, id string) (QueuePlace, error)
	// Tasks lists tasks, newest first. The work of one call is bounded: a selective filter may
	// return a short page with a next cursor.
	Tasks(ctx context.Context, q TaskQuery) (tasks []Task, next Cursor, err error)
	// Cancel and Requeue follow the rules of the same names in internal/lifecycle.
	Cancel(ctx context.Context, id, actor string) (Task, error)
	Requeue(ctx context.Context, id, actor string) (Task, error)
	// AppendEvents appends a worker's events under its current lease and returns the last number of
	// the stream. It ignores events whose worker Seq is already stored for this lease. Another
	// lease gets ErrLeaseLost and changes nothing.
	AppendEvents(ctx context.Context, taskID, leaseID string, events []WorkerEvent) (last int64, err error)
	// Events lists a task's stream after the given number, oldest first. It returns fewer than
	// limit when they reach MaxEventPageBytes.
	Events(ctx context.Context, taskID string, after int64, limit int) ([]Event, error)
	// Results lists a task's results, newest first. Output is nil when it is in the blob store with
	// the result's artifact, and after the newest ResultsWithOutput.
	Results(ctx context.Context, taskID string) ([]Result, error)
	// Stats returns counts that are kept up to date; it never scans the tasks.
	Stats(ctx context.Context) (Stats, error)
	// QueuedBy counts the queued tasks that an actor created, up to limit.
	QueuedBy(ctx context.Context, actor string, limit int64) (int64, error)
	// QueueDepths groups the tasks that workers could start now by their labels, in any order: at
	// most maxSets sets of labels, and for each counts up to maxTasks tasks.
	QueueDepths(ctx context.Context, maxSets, maxTasks int) ([]QueueDepth, error)
	// HeldBack counts the queued tasks behind GateDelayed or GateOrdered, up to limit.
	HeldBack(ctx context.Context, gate Gate, limit int) (HeldBack, error)
}
