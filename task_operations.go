package bloom

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
