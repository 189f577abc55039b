package bloom

import (
	"context"
	"time"
)

// Store keeps all durable state of the runtime.
//
// Every method that changes something is one transaction: the change, its audit entry and its
// events in the task's stream are written together or not at all. When a method returns nil, the
// change survives a power failure. When it returns an error that is not an *Error, the outcome may
// be unknown (the connection broke during the commit). Every such method is safe to repeat:
// CreateTask by its ID, Complete by its body hash, the others because they compare before they set.
//
// The rules are in internal/lifecycle; a store compares and sets. Time is the store's own (an
// injected Clock, or the database server's), and it alone decides expiry.
//
// All methods are safe for concurrent use. Cancelling a context ends the caller's wait; it never
// undoes another caller's write.
//
// Errors: ErrTaskNotFound, ErrWorkerNotFound and NotFound("Artifact") for missing things, Conflict
// when the state does not allow the call, ErrLeaseLost for a lease that is no longer current,
// ErrUnavailable when the store is closed or does not answer.
type Store interface {
	TaskStore
	LeaseStore
	WorkerStore
	RecordStore
	AuditChainStore
	ContextStore
	RetentionStore
	SeriesStore
	SearchStore
	AccessStore

	// Name returns the name that health shows: "sqlite" or "postgresql".
	Name() string
	// Ping returns an error when the store does not answer.
	Ping(ctx context.Context) error
	// Subscribe calls fn with changes committed by this or any other process, in no particular
	// order, possibly merged, possibly incomplete: hints to read again. fn must not block. stop
	// ends the calls.
	Subscribe(fn func([]Change)) (stop func())
	// Close waits for writes in progress, then closes. Later calls return ErrUnavailable. Closing
	// twice is allowed.
	Close() error
}

// LeaseStore leases tasks to workers.
type LeaseStore interface {
	// LeaseTask leases one task to a worker, which lifecycle.PickWorker selects unless it is named.
	// ErrNoWorker when no worker (or not the named one) can take it.
	LeaseTask(ctx context.Context, r LeaseRequest) (Lease, Worker, error)
	// Claim renews a worker's leases and leases it new tasks; see ClaimRequest.
	Claim(ctx context.Context, r ClaimRequest) (ClaimResult, error)
	// Heartbeat renews one lease. With an empty leaseID it renews the task's active lease, or
	// returns ErrLeaseNotFound. used, unless it is nil, is what the attempt has used so far.
	Heartbeat(ctx context.Context, taskID, leaseID string, used *Usage) (HeartbeatResult, error)
	// Complete records the outcome of a lease in one transaction. The same lease and body hash
	// again returns the same records and Replayed true; another body is ErrOtherOutcome.
	Complete(ctx context.Context, r CompleteRequest) (Completed, error)
	// Release releases a lease; repeating it changes nothing.
	Release(ctx context.Context, taskID string, r ReleaseSpec, actor string) (Task, error)
	Leases(ctx context.Context, q LeaseQuery) (leases []Lease, next Cursor, err error)
	// Lease returns one lease of a task, or ErrLeaseLost when the task never had it.
	Lease(ctx context.Context, taskID, leaseID string) (Lease, error)

	// Time returns the store's clock in Unix milliseconds.
	Time(ctx context.Context) (int64, error)
	// Reap expires at most limit overdue leases. Call it again while it expires that many.
	Reap(ctx context.Context, limit int) (Reaped, error)
	// ExtendLeases restarts the TTL of every active lease and returns how many it changed: the
	// grace period after a start, an outage or a jump of the store's clock, so that workers can report
	// again. It also shortens leases that were granted under a wrong clock.
	ExtendLeases(ctx context.Context) (int, error)
}

// WorkerStore keeps the registered workers.
type WorkerStore interface {
	// RegisterWorker creates or updates a worker; created reports which. ErrWorkerConflict when
	// another live instance has the name.
	RegisterWorker(ctx context.Context, w WorkerSpec, actor string) (worker Worker, created bool, err error)
	Worker(ctx context.Context, id string) (Worker, []Lease, error)
	// Workers lists all workers by name, with their active leases counted.
	Workers(ctx context.Context) ([]Worker, error)
	// WorkersAfter lists at most n workers whose names follow name, as Workers does.
	WorkersAfter(ctx context.Context, name string, n int) ([]Worker, error)
	// RemoveWorker removes a worker and releases its active leases. The worker comes back when it
	// calls RegisterWorker or registers again at the control plane.
	RemoveWorker(ctx context.Context, id, actor string) error
	// DrainWorker drains or undrains a worker at the runtime. A worker takes no work while the
	// runtime or the control plane drains it.
	DrainWorker(ctx context.Context, id string, drain bool, actor string) (Worker, error)
	// FollowDrain records whether the control plane drains a worker.
	FollowDrain(ctx context.Context, id string, drain bool, actor string) (Worker, error)
	// ControlDrained returns the workers that the control plane drains, as last reported by it.
	ControlDrained(ctx context.Context) ([]string, error)
	// SyncWorkers upserts the workers that the control plane reports. A removed worker stays
	// removed until it registers there again (WorkerReport.PostedAt). Leases and draining are never
	// touched.
	SyncWorkers(ctx context.Context, reports []WorkerReport) (changed int, err error)
	// MarkSilent sets workers offline that have been silent for longer than d and returns how many.
	MarkSilent(ctx context.Context, d time.Duration) (int, error)
	// ReportLogs stores the last log lines of a worker; ErrWorkerNotFound.
	ReportLogs(ctx context.Context, id string, r LogReport) error
	// WorkerLogs returns the last lines that a worker reported; ErrWorkerNotFound.
	WorkerLogs(ctx context.Context, id string) (WorkerLogs, error)
}

// RecordStore keeps artifacts, the audit and settings.
type RecordStore interface {
	Artifact(ctx context.Context, id string) (Artifact, error)
	Artifacts(ctx context.Context, q ArtifactQuery) (artifacts []Artifact, next Cursor, err error)
	// MoveArtifact records that an artifact's content has moved from one URL to another; from is
	// nil for content in the row, which is then removed. It does nothing when the content is
	// already at to. Conflict when it is at neither.
	MoveArtifact(ctx context.Context, id string, from *string, to string) error
	// WaitingContent counts the artifacts that ArtifactQuery.Displaced lists and the
	// contexts that Transcripts lists as local, together up to MaxWaiting.
	WaitingContent(ctx context.Context) (int64, error)
	// AddArtifact adds a file under an active lease, ErrLeaseLost otherwise. The same path again
	// with the same content returns the existing artifact and replayed true; with other content it
	// is a conflict.
	AddArtifact(ctx context.Context, n NewArtifact) (a Artifact, replayed bool, err error)
	// DueTranscripts lists ended tasks whose events have no transcript yet, if the store was opened
	// to record them: at most limit, oldest first, after the previous page's next; 0 for the first
	// page.
	DueTranscripts(ctx context.Context, after int64, limit int) (taskIDs []string, next int64, err error)
	// UntranscribedStreams lists the tasks that RemoveEvents would find whose events are not
	// completely in transcripts.
	UntranscribedStreams(ctx context.Context, r RemoveRequest) (taskIDs []string, next int64, more bool, err error)
	// TranscribedTo returns the number of a task's last event that is in a transcript, 0 when none
	// is.
	TranscribedTo(ctx context.Context, taskID string) (int64, error)
	// AddTranscripts adds transcripts of an ended task's events after TranscribedTo. Conflict when
	// the task has not ended or another process was faster.
	AddTranscripts(ctx context.Context, r AddTranscripts) error
	Audit(ctx context.Context, q AuditQuery) (entries []Audit, next Cursor, err error)
	// AppendAudit writes an audit entry without any other change. The store sets ID, Seq and
	// Timestamp.
	AppendAudit(ctx context.Context, a Audit) error
	Settings(ctx context.Context) (map[string]string, error)
	// PutSettings writes settings together with the audit entry of the change. An empty value
	// removes the setting.
	PutSettings(ctx context.Context, settings map[string]string, a Audit) error
	// ReplaceSettings is PutSettings, but fails with a conflict unless the settings named in was
	// still have these values.
	ReplaceSettings(ctx context.Context, was, settings map[string]string, a Audit) error
}

// ContextStore keeps the shared state of the tasks of a context. The transactions that change tasks
// update it.
type ContextStore interface {
	// Context returns one context, or ErrContextNotFound.
	Context(ctx context.Context, id string) (Context, error)
	// Contexts lists contexts, the one with the newest task first.
	Contexts(ctx context.Context, q ContextQuery) (contexts []Context, next Cursor, err error)
	// Transcript returns the transcript of a context after its last completion, nil when there is
	// none.
	Transcript(ctx context.Context, contextID string) (*Transcript, error)
	// TranscriptIn returns the transcript whose parts are in a folder, nil when there is none.
	TranscriptIn(ctx context.Context, folder string) (*Transcript, error)
	// Transcripts lists at most limit transcripts in the order of their contexts' ids, after the
	// given id; with local, only those with a part in a server's folder.
	Transcripts(ctx context.Context, after string, limit int, local bool) ([]ContextTranscript, error)
	// MovePart records that a part of a context's transcript or working folder has moved from one
	// URL to another. Conflict when no part is at from.
	MovePart(ctx context.Context, contextID, from, to string) error
	// ForgetContext removes a context and its transcript and announces that to workers. Conflict
	// while one of its tasks is unfinished.
	ForgetContext(ctx context.Context, id, actor string) error
	// Forgotten lists contexts that were forgotten after the given number, oldest first.
	Forgotten(ctx context.Context, after int64, limit int) ([]ForgottenContext, error)
	// FillContexts adds contexts for a batch of tasks created before contexts were recorded, newest
	// first. Call it again while it returns more.
	FillContexts(ctx context.Context) (more bool, err error)
}

// AccessStore keeps API keys and browser sessions. Changes are published as ChangeAccess.
type AccessStore interface {
	// CreateKey stores a key. The caller sets ID, Name, Role, WorkerID, ExpiresAt and Digest; the
	// same ID and Digest again returns the existing key.
	CreateKey(ctx context.Context, k StoredKey, actor string) (APIKey, error)
	// Key returns a key by its id, even a revoked one; NotFound("Key").
	Key(ctx context.Context, id string) (StoredKey, error)
	// Keys lists keys, newest first, including revoked ones. Status is as of the store's time.
	Keys(ctx context.Context, p Page) (keys []APIKey, next Cursor, err error)
	// AnyKey reports whether a key was ever created in this database.
	AnyKey(ctx context.Context) (bool, error)
	// RevokeKey revokes a key and ends its sessions; repeating it changes nothing.
	RevokeKey(ctx context.Context, id, actor string) (APIKey, error)
	// CreateSession stores a session and removes expired ones. The caller sets ID, Name, Role,
	// KeyID, Address and Agent.
	CreateSession(ctx context.Context, s BrowserSession, life time.Duration, actor string) (StoredSession, error)
	// Session returns a session by its id, even an expired one; NotFound("Session").
	Session(ctx context.Context, id string) (StoredSession, error)
	// Sessions lists sessions, newest first.
	Sessions(ctx context.Context, p Page) (sessions []BrowserSession, next Cursor, err error)
	// RenewSession advances a session's turn and extends its life. It changes nothing when the
	// session is no longer at this turn, because another request was faster.
	RenewSession(ctx context.Context, id string, turn int64, life time.Duration) (StoredSession, error)
	// EndSession removes a session; NotFound("Session").
	EndSession(ctx context.Context, id, actor string) error
	// NoteUse records when keys and sessions were last used, in Unix milliseconds by id. It ignores
	// unknown ids.
	NoteUse(ctx context.Context, keys, sessions map[string]int64) error
}
