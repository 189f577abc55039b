package bloom

import "encoding/json"

// Types of the runtime's own events in a task's stream. Workers add events of their own types:
// "text", "tool_use", "tool_result", "log" and others. The comments are in
// docs/reference/events.md: when; data: its fields.
const (
	EventCreated         = "created"            // the task was created; data: detail
	EventLeased          = "leased"             // a worker has the task; data: detail worker_id
	EventStarted         = "started"            // the worker has begun the task; data: detail worker_id
	EventRetried         = "retried"            // the attempt failed, and another one follows; data: detail worker_id error_class
	EventReleased        = "released"           // the worker returned the task, and the attempt does not count; data: detail worker_id
	EventExpired         = "expired"            // the lease expired, and the attempt counts; data: detail worker_id error_class
	EventTranscript      = "transcript_refused" // the turn was not added to the context's conversation; data: message
	EventWorkspace       = "workspace_refused"  // the working folder was not saved after the turn; data: message
	EventArtifact        = "artifact"           // a file of the run was uploaded; data: artifact_id path type size
	EventRequeued        = "requeued"           // the task was requeued by hand; data: detail
	EventCancelRequested = "cancel_requested"   // the task was cancelled while a worker held it, and the worker stops the run; data: detail
	EventCompleted       = "completed"          // the task has ended with a result; data: detail worker_id
	EventFailed          = "failed"             // the task has ended with an error; data: detail worker_id error_class
	EventDead            = "dead"               // the lease of the last attempt expired; data: detail worker_id error_class
	EventCancelled       = "cancelled"          // the task has ended because it was cancelled; data: detail worker_id
	EventAsked           = "approval_asked"     // a person is asked before a call runs; data: approval_id kind tool tool_use_id readable status
	EventDecided         = "approval_decided"   // a person decided, or nobody did in time; data: approval_id kind tool tool_use_id readable status message answers by
	EventSuspended       = "suspended"          // the run waits for a person and holds no worker; data: detail worker_id
)

// EventUsage shows that the model has begun to answer.
const EventUsage = "usage" // what the run has used so far; data: input_tokens output_tokens cache_creation_tokens cache_read_tokens tokens_used cost_usd

// MaxEventData bounds the data of one event, in bytes. Longer data is truncated and marked with
// "truncated".
const MaxEventData = 1 << 20

// Event is one entry of a task's stream. Seq numbers the whole stream of the task across attempts,
// starting at 1.
type Event struct {
	Seq   int64           `json:"seq"`
	Type  string          `json:"type"`
	At    int64           `json:"at" doc:"Unix milliseconds"`
	Epoch int64           `json:"epoch" doc:"The lease it belongs to; 0 before the first"`
	Data  json.RawMessage `json:"data"`
}

// WorkerEvent is an event that a worker appends. Seq is the worker's own number within the lease;
// duplicates are ignored.
type WorkerEvent struct {
	Seq  int64           `json:"seq" minimum:"1" maximum:"9007199254740992"`
	Type string          `json:"type" minLength:"1" maxLength:"64"`
	At   int64           `json:"at" minimum:"0"`
	Data json.RawMessage `json:"data"`
}

// Change notifies long polls, streams and the web application that something changed. Changes are
// hints: they may be merged or lost, so a waiter must also read the store from time to time.
type Change struct {
	Kind       string     `json:"kind" enum:"task,events,worker,settings,access,schedules"`
	TaskID     string     `json:"task_id,omitempty"`
	WorkerID   string     `json:"worker_id,omitempty"`
	TaskStatus TaskStatus `json:"status,omitempty"`
	// Labels that a newly queued task requires.
	Labels []string `json:"-"`
	// RunAt of a newly queued task, Unix milliseconds.
	RunAt int64 `json:"-"`
	// CancelRequested means that the worker that holds the task must stop.
	CancelRequested bool `json:"cancel_requested,omitempty"`
}

// Kinds of change.
const (
	ChangeTask     = "task"
	ChangeEvents   = "events"
	ChangeWorker   = "worker"
	ChangeSettings = "settings"
	ChangeAccess   = "access" // keys or sessions
	// ChangeMissed means that changes may have been lost: whatever is shown or cached should be
	// read again. It names nothing.
	ChangeMissed = "missed"
)
