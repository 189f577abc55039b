package bloom

import "encoding/json"

// Types of the runtime's own events in a task's stream. A worker's events have
// the worker's types: "text", "tool_use", "tool_result", "log" and the like.
const (
	EventCreated         = "created"
	EventLeased          = "leased"
	EventStarted         = "started"
	EventRetried         = "retried"
	EventReleased        = "released"
	EventExpired         = "expired"
	EventTranscript      = "transcript_refused" // the turn is not part of the context's conversation
	EventWorkspace       = "workspace_refused"  // what the turn made of the working folder is not kept
	EventArtifact        = "artifact"           // a file was added
	EventRequeued        = "requeued"
	EventCancelRequested = "cancel_requested"
	EventCompleted       = "completed"
	EventFailed          = "failed"
	EventDead            = "dead"
	EventCancelled       = "cancelled"
)

// MaxEventData is the most data one event keeps, in bytes; longer is cut and
// marked with "truncated".
const MaxEventData = 1 << 20

// Event is one entry of a task's stream. Seq numbers the whole stream of the
// task across attempts, beginning at 1.
type Event struct {
	Seq   int64           `json:"seq"`
	Type  string          `json:"type"`
	At    int64           `json:"at" doc:"Unix milliseconds"`
	Epoch int64           `json:"epoch" doc:"The lease it belongs to; 0 before the first"`
	Data  json.RawMessage `json:"data"`
}

// WorkerEvent is one line that a worker appends. Seq is the worker's own
// number within the lease; a repeated one is ignored.
type WorkerEvent struct {
	Seq  int64           `json:"seq" minimum:"1" maximum:"9007199254740992"`
	Type string          `json:"type" minLength:"1" maxLength:"64"`
	At   int64           `json:"at" minimum:"0"`
	Data json.RawMessage `json:"data"`
}

// Change says that something changed, for those who wait: long polls, streams,
// the web application. Changes are hints: they may be merged or lost, and
// whoever waits must look at the store again from time to time.
type Change struct {
	Kind       string     `json:"kind" enum:"task,events,worker,settings,access"`
	TaskID     string     `json:"task_id,omitempty"`
	WorkerID   string     `json:"worker_id,omitempty"`
	TaskStatus TaskStatus `json:"status,omitempty"`
	// Labels that a newly queued task asks for.
	Labels []string `json:"-"`
	// RunAt of a newly queued task, Unix milliseconds.
	RunAt int64 `json:"-"`
	// CancelRequested tells the worker of a held task to stop.
	CancelRequested bool `json:"cancel_requested,omitempty"`
}

// TaskChange is the change of a task's state. workerID is who made it so; when that is
// nobody, who has or last had the task. The labels of a queued one are the
// caller's to add.
func TaskChange(taskID string, t TaskState, workerID string) Change {
	c := Change{Kind: ChangeTask, TaskID: taskID, WorkerID: workerID, TaskStatus: t.Status, CancelRequested: t.CancelRequested}
	if c.WorkerID == "" && t.WorkerID != nil {
		c.WorkerID = *t.WorkerID
	}
	if t.Status == TaskQueued {
		c.RunAt = t.RunAt
	}
	return c
}

// Kinds of change.
const (
	ChangeTask     = "task"
	ChangeEvents   = "events"
	ChangeWorker   = "worker"
	ChangeSettings = "settings"
	ChangeAccess   = "access" // keys or sessions
	// ChangeMissed says that changes may have gone unheard: what is shown or
	// remembered should be read again. It names nothing.
	ChangeMissed = "missed"
)
