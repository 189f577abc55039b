package bloom

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"time"
)

// Store keeps everything the runtime must not forget.
//
// Every method that changes something is one transaction: the change, its audit
// entry and its events in the task's stream are all there or none. When a
// method has returned nil the change survives a power failure. When it returns
// an error that is not an *Error the outcome may be unknown (a connection cut
// at commit); every such method is safe to repeat: CreateTask by its ID,
// Complete by its body hash, the others because they compare before they set.
//
// Rules live in internal/lifecycle; a store compares and
// sets. Time is the store's own (an injected Clock, or the database server's) and
// it alone decides expiry.
//
// All methods may be called by many goroutines at once. A cancelled context
// ends the caller's wait; it never undoes another caller's write.
//
// Errors: ErrTaskNotFound, ErrWorkerNotFound and NotFound("Artifact") for things
// that do not exist, Conflict for states that do not allow the call,
// ErrLeaseLost for a lease that is no longer current, ErrUnavailable when the
// store is closed or does not answer.
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

	// Name is what health shows: "sqlite" or "postgresql".
	Name() string
	// Ping reports whether the store answers.
	Ping(ctx context.Context) error
	// Subscribe calls fn with changes committed by this or any other process,
	// in no promised order, possibly merged, possibly missing some: a hint to
	// look. fn must not block. stop ends the calls.
	Subscribe(fn func([]Change)) (stop func())
	// Close waits for writes under way, then closes. Calls after it get
	// ErrUnavailable. Closing twice is allowed.
	Close() error
}

// TaskStore keeps tasks and their streams.
type TaskStore interface {
	// CreateTask queues a task. The same ID again, or the same idempotency key
	// with the same body hash, answers with the task as it is now and replayed
	// true; the key with another body is ErrIdempotency.
	CreateTask(ctx context.Context, t NewTask) (task Task, replayed bool, err error)
	Task(ctx context.Context, id string) (Task, error)
	// QueuePlace is what decides a queued task's turn beside the workers.
	QueuePlace(ctx context.Context, id string) (QueuePlace, error)
	// Tasks lists the newest first. The work of one call is bounded: a filter
	// that matches little may answer a short page with a next cursor.
	Tasks(ctx context.Context, q TaskQuery) (tasks []Task, next Cursor, err error)
	// Cancel and Requeue follow the rules of the same names.
	Cancel(ctx context.Context, id, actor string) (Task, error)
	Requeue(ctx context.Context, id, actor string) (Task, error)
	// AppendEvents adds a worker's events under its current lease and answers
	// with the stream's last number. Events whose worker Seq is known for this
	// lease are ignored. Another lease gets ErrLeaseLost and changes nothing.
	AppendEvents(ctx context.Context, taskID, leaseID string, events []WorkerEvent) (last int64, err error)
	// Events lists a task's stream after the given number, oldest first. It answers
	// with fewer than limit when they reach MaxEventPageBytes.
	Events(ctx context.Context, taskID string, after int64, limit int) ([]Event, error)
	// Results lists a task's results, newest first. Output is null when it lies
	// in the blob store with the result's artifact, and after the newest
	// ResultsWithOutput.
	Results(ctx context.Context, taskID string) ([]Result, error)
	// Stats never scans what only grows.
	Stats(ctx context.Context) (Stats, error)
	// QueuedBy counts the queued tasks that an actor created, up to most.
	QueuedBy(ctx context.Context, actor string, most int64) (int64, error)
	// QueueDepths groups the tasks that workers could start now by their labels, in any
	// order: at most so many sets of labels, of each at most so many tasks.
	QueueDepths(ctx context.Context, sets, tasks int) ([]QueueDepth, error)
	// HeldBack counts the queued tasks behind GateDelayed or GateOrdered, up to most.
	HeldBack(ctx context.Context, gate Gate, most int) (HeldBack, error)
}

// LeaseStore moves tasks through the hands of workers.
type LeaseStore interface {
	// LeaseTask gives one task to a worker, chosen by lifecycle.PickWorker unless named.
	// ErrNoWorker when nobody (or not the named one) can take it.
	LeaseTask(ctx context.Context, r LeaseRequest) (Lease, Worker, error)
	// Claim is one look of a pulling worker; see ClaimRequest.
	Claim(ctx context.Context, r ClaimRequest) (ClaimResult, error)
	// Heartbeat renews one lease. With an empty leaseID it renews the task's
	// active lease, ErrLeaseNotFound when there is none.
	Heartbeat(ctx context.Context, taskID, leaseID string) (HeartbeatResult, error)
	// Complete records the outcome of a lease in one transaction. The same
	// lease and body hash again gives the same records and Replayed true;
	// another body ErrOtherOutcome.
	Complete(ctx context.Context, r CompleteRequest) (Completed, error)
	// Release gives a lease back; repeating it changes nothing.
	Release(ctx context.Context, taskID string, r ReleaseSpec, actor string) (Task, error)
	Leases(ctx context.Context, q LeaseQuery) (leases []Lease, next Cursor, err error)
	// Lease is one lease of a task, ErrLeaseLost when the task never had it.
	Lease(ctx context.Context, taskID, leaseID string) (Lease, error)

	// Reap expires at most limit overdue leases; called again while it answers
	// with limit.
	Reap(ctx context.Context, limit int) (Reaped, error)
	// ExtendLeases gives every active lease its own TTL from now on: the grace after
	// a start or an outage, so that workers can report again. One that has longer was
	// given under a clock that was wrong. It answers how many it changed.
	ExtendLeases(ctx context.Context) (int, error)
}

// WorkerStore keeps the workers.
type WorkerStore interface {
	// RegisterWorker makes a worker known or updates it; created tells which.
	// ErrWorkerConflict when another living instance has the name.
	RegisterWorker(ctx context.Context, w WorkerSpec, actor string) (worker Worker, created bool, err error)
	Worker(ctx context.Context, id string) (Worker, []Lease, error)
	// Workers lists all workers by name, with their active leases counted.
	Workers(ctx context.Context) ([]Worker, error)
	// RemoveWorker forgets a worker; its active leases go back to the queue as
	// if released. It comes back by RegisterWorker, or posted anew at the control
	// plane.
	RemoveWorker(ctx context.Context, id, actor string) error
	// DrainWorker drains a worker at the runtime, or undrains it there: it takes no
	// work while the runtime or the control plane drains it.
	DrainWorker(ctx context.Context, id string, drain bool, actor string) (Worker, error)
	// FollowDrain notes whether the control plane drains a worker.
	FollowDrain(ctx context.Context, id string, drain bool, actor string) (Worker, error)
	// ControlDrained names the workers that the control plane drains, by what was
	// last heard of it.
	ControlDrained(ctx context.Context) ([]string, error)
	// SyncWorkers upserts what the control plane reports. A removed worker stays
	// removed until it is posted anew (WorkerReport.PostedAt); leases and draining are never touched.
	SyncWorkers(ctx context.Context, reports []WorkerReport) (changed int, err error)
	// MarkSilent sets workers offline that nobody has heard of for longer.
	MarkSilent(ctx context.Context, longer time.Duration) (int, error)
	// ReportLogs keeps the last log lines of a worker; ErrWorkerNotFound, and
	// ErrWorkerConflict with LogReport.MustName.
	ReportLogs(ctx context.Context, id string, r LogReport) error
	// WorkerLogs are the last lines that a worker reported; ErrWorkerNotFound.
	WorkerLogs(ctx context.Context, id string) (WorkerLogs, error)
}

// RecordStore keeps artifacts, the audit and settings.
type RecordStore interface {
	Artifact(ctx context.Context, id string) (Artifact, error)
	Artifacts(ctx context.Context, q ArtifactQuery) (artifacts []Artifact, next Cursor, err error)
	// MoveArtifact records that an artifact's content, which lay at from (nil: in the
	// row), lies at to now; the row's own content goes with it. An artifact that is there
	// already is left alone. ErrConflict when its content lies somewhere else.
	MoveArtifact(ctx context.Context, id string, from *string, to string) error
	// WaitingContent counts the artifacts that ArtifactQuery.Displaced lists and the
	// contexts that Transcripts lists as local, together up to MaxWaiting.
	WaitingContent(ctx context.Context) (int64, error)
	// AddArtifact adds a file to a lease that is active, ErrLeaseLost otherwise. The same
	// path again with the same content answers with what is there and replayed true,
	// with another content it is a conflict.
	AddArtifact(ctx context.Context, n NewArtifact) (a Artifact, replayed bool, err error)
	// DueTranscripts lists ended tasks whose events are to be put into transcripts,
	// where the store was opened to note them: at most limit, the oldest first, from
	// where the page before ended, which is its next; 0 is the beginning.
	DueTranscripts(ctx context.Context, after int64, limit int) (taskIDs []string, next int64, err error)
	// UnkeptStreams lists tasks as RemoveEvents finds them whose events do not wholly
	// lie in transcripts.
	UnkeptStreams(ctx context.Context, r RemoveRequest) (taskIDs []string, next int64, more bool, err error)
	// TranscribedTo is the number of the last of a task's events that lies in a
	// transcript, 0 when none does.
	TranscribedTo(ctx context.Context, taskID string) (int64, error)
	// AddTranscripts adds transcripts of an ended task's events after TranscribedTo. A
	// conflict when the task has not ended, or somebody else was faster.
	AddTranscripts(ctx context.Context, r AddTranscripts) error
	Audit(ctx context.Context, q AuditQuery) (entries []Audit, next Cursor, err error)
	// AppendAudit writes an entry that goes with no other change. ID, Seq and
	// Timestamp are the store's to set.
	AppendAudit(ctx context.Context, a Audit) error
	Settings(ctx context.Context) (map[string]string, error)
	// PutSettings writes settings and the audit entry of the change together. An empty
	// value removes the setting.
	PutSettings(ctx context.Context, settings map[string]string, a Audit) error
}

// ContextStore keeps what the tasks of a context have in common. It is kept by the
// transactions that change tasks.
type ContextStore interface {
	// Context is one context, ErrContextNotFound when nothing is known of it.
	Context(ctx context.Context, id string) (Context, error)
	// Contexts lists them, the one with the newest task first.
	Contexts(ctx context.Context, q ContextQuery) (contexts []Context, next Cursor, err error)
	// Transcript is the transcript of a context as its last completion left it; nil when
	// there is none.
	Transcript(ctx context.Context, contextID string) (*Transcript, error)
	// TranscriptIn is the transcript whose parts lie in a folder, nil when there is none.
	TranscriptIn(ctx context.Context, folder string) (*Transcript, error)
	// Transcripts lists at most limit transcripts in the order of their contexts' ids, from
	// after the given one on; with local only those of which a part lies in a server's
	// folder or in the database.
	Transcripts(ctx context.Context, after string, limit int, local bool) ([]ContextTranscript, error)
	// MovePart records that a part of a context's transcript or working folder, which lay
	// at from, lies at to now. Conflict when there is none at from any more.
	MovePart(ctx context.Context, contextID, from, to string) error
	// ForgetContext drops a context and its transcript and lets workers know. Conflict
	// while a task of it has not ended.
	ForgetContext(ctx context.Context, id, actor string) error
	// Forgotten lists contexts that were forgotten after the given number, oldest first.
	Forgotten(ctx context.Context, after int64, limit int) ([]ForgottenContext, error)
	// FillContexts takes in a batch of tasks that are older than the keeping of
	// contexts, the newest first. It is called again while it answers with more.
	FillContexts(ctx context.Context) (more bool, err error)
}

// AccessStore keeps keys and sessions. What changes one is published as ChangeAccess.
type AccessStore interface {
	// CreateKey stores a key. ID, Name, Role, WorkerID, ExpiresAt and Digest are the
	// caller's; the same ID and Digest again answers with the key as it is.
	CreateKey(ctx context.Context, k KnownKey, actor string) (APIKey, error)
	// Key is a key by its id, also a revoked one; NotFound("Key").
	Key(ctx context.Context, id string) (KnownKey, error)
	// Keys lists the newest first, revoked ones too. Status is as of the store's time.
	Keys(ctx context.Context, p Page) (keys []APIKey, next Cursor, err error)
	// AnyKey reports whether a key was ever created here.
	AnyKey(ctx context.Context) (bool, error)
	// RevokeKey revokes a key and ends its sessions; repeating it changes nothing.
	RevokeKey(ctx context.Context, id, actor string) (APIKey, error)
	// CreateSession stores a session and removes those that have expired. ID, Name,
	// Role, KeyID, Address and Agent are the caller's.
	CreateSession(ctx context.Context, s BrowserSession, life time.Duration, actor string) (KnownSession, error)
	// Session is a session by its id, perhaps one that has expired; NotFound("Session").
	Session(ctx context.Context, id string) (KnownSession, error)
	// Sessions lists the newest first.
	Sessions(ctx context.Context, p Page) (sessions []BrowserSession, next Cursor, err error)
	// RenewSession gives a session another turn and life. When it no longer has this
	// turn, somebody else was faster, and nothing changes.
	RenewSession(ctx context.Context, id string, turn int64, life time.Duration) (KnownSession, error)
	// EndSession removes a session; NotFound("Session") when there is none.
	EndSession(ctx context.Context, id, actor string) error
	// NoteUse records when keys and sessions were last used, Unix milliseconds by id;
	// those that are gone are ignored.
	NoteUse(ctx context.Context, keys, sessions map[string]int64) error
}

// Page bounds a list. Limit 0 means DefaultPageSize.
type Page struct {
	Limit  int
	Cursor Cursor
	// TextBytes is the longest prompt, list of context hints or content that a row
	// carries, in bytes; a longer one is cut and marked. 0 leaves them whole.
	TextBytes int
}

// TextWindow is how many characters of a long text a store reads so that CutTexts
// finds TextBytes in them: few distinct values, so that a database sees few distinct
// statements.
func (p Page) TextWindow() int {
	n := 1024
	for n <= p.TextBytes {
		n *= 2
	}
	return n
}

// ResultsWithOutput is how many of a task's results Store.Results reads with their
// output: it may be as long as InlineContentLimit.
const ResultsWithOutput = 16

// MaxEventPageBytes bounds the data of the events that one call of Store.Events
// answers with, in bytes: it ends with the event that reaches it.
const MaxEventPageBytes = 256 << 10

// Sizes of a page.
const (
	DefaultPageSize = 100
	MaxPageSize     = 1000
)

// Size is how many entries the page holds at most.
func (p Page) Size() int {
	if p.Limit <= 0 {
		return DefaultPageSize
	}
	return min(p.Limit, MaxPageSize)
}

// TaskQuery selects tasks; empty fields select all.
type TaskQuery struct {
	Status    TaskStatus
	ContextID string
	AgentSlug string
	WorkerID  string
	Error     ErrorClass // why the last attempt failed
	Text      string     // what the prompt or the newest output contains, see SearchStore; or part of the id, 4 characters at least
	Page
}

// LeaseQuery selects leases.
type LeaseQuery struct {
	Status LeaseStatus
	Page
}

// ArtifactQuery selects artifacts.
type ArtifactQuery struct {
	TaskID    string
	Displaced bool // only those with CompleteRequest.Displaced that were not moved since
	Page
}

// AuditQuery selects audit entries.
type AuditQuery struct {
	EntityID string
	Action   string
	Page
}

// LeaseRequest asks to give one task to a worker now.
type LeaseRequest struct {
	TaskID   string
	WorkerID string // empty: the store picks
	TTLSec   int    // 0: DefaultLeaseTTLSec
	Actor    string
}

// ClaimRequest is one look of a worker at its work: it renews the leases it
// holds, learns which it lost or must stop, and takes new tasks.
type ClaimRequest struct {
	WorkerID   string
	InstanceID string   // the living process; another live one is ErrWorkerConflict
	MustName   bool     // an empty InstanceID is ErrWorkerConflict while a known process is alive
	Max        int      // new tasks wanted, 0 for none; never more than the worker's free capacity
	TTLSec     int      // of new leases; 0: DefaultLeaseTTLSec
	Held       []string // lease ids the worker holds
	// Renew renews what is held. A long poll renews once and looks often. A look
	// that does not renew and finds a lease expired takes nothing new: its worker
	// may be long gone, and would be given again what it has just lost.
	Renew bool
}

// LeasedTask is a task and the lease it is held under.
type LeasedTask struct {
	Lease Lease `json:"lease"`
	Task  Task  `json:"task"`
}

// Renewal says until when a held lease is good now.
type Renewal struct {
	LeaseID   string `json:"lease_id"`
	ExpiresAt int64  `json:"expires_at" doc:"Unix milliseconds"`
}

// ClaimResult is the answer to a claim. Leases holds new ones and those the
// worker was given but did not name. A lease that the worker named and that could not
// be renewed now is neither in Renewed nor in Lost: it is the worker's until it expires.
type ClaimResult struct {
	Leases  []LeasedTask `json:"leases" nullable:"false"`
	Renewed []Renewal    `json:"renewed" nullable:"false"`
	Lost    []string     `json:"lost" nullable:"false"`
	Cancel  []string     `json:"cancel" nullable:"false"`
	Drain   bool         `json:"drain"`
	// Forgotten are contexts whose sessions the worker is to forget, for a worker that
	// said how far it has come.
	Forgotten []ForgottenContext `json:"forgotten,omitempty" nullable:"false" doc:"Contexts to forget; the last one's seq is the next claim's forgotten_after"`

	Labels []string `json:"-"` // that the worker carries
}

// Urgent reports whether a long poll must come back now.
func (r ClaimResult) Urgent() bool {
	return len(r.Leases) > 0 || len(r.Lost) > 0 || len(r.Cancel) > 0 || r.Drain
}

// HeartbeatResult is the answer to a heartbeat.
type HeartbeatResult struct {
	Lease           Lease `json:"lease"`
	ExpiresAt       int64 `json:"expires_at" doc:"Unix milliseconds"`
	CancelRequested bool  `json:"cancel_requested"`
}

// CompleteRequest is a completion with its content already placed: Content for
// text in the row, URL for what was uploaded to the blob store before.
type CompleteRequest struct {
	TaskID     string
	ArtifactID string
	ResultID   string
	Completion Completion
	BodyHash   string // of the normalised completion
	Content    *string
	URL        *string
	Size       int64
	SHA256     string
	MediaType  string
	Displaced  bool // the content lies where it should not stay, see MoveArtifact
	Actor      string
	ContextID  string // the task's, needed with Completion.Transcript
	Late       bool   // what was uploaded for Transcript and Workspace may be gone; they do not count
}

// Completed is what a completion left.
type Completed struct {
	Task     Task     `json:"task"`
	Artifact Artifact `json:"artifact"`
	Result   Result   `json:"result"`
	Replayed bool     `json:"-"`
	HeldMS   int64    `json:"-"` // how long the lease was held; 0 for a replay
}

// Reaped counts what one reaping did.
type Reaped struct {
	Requeued, Dead, Cancelled int
}

// Count adds a lease that was expired; after is what became of its task.
func (r *Reaped) Count(after TaskStatus) {
	switch after {
	case TaskDead:
		r.Dead++
	case TaskCancelled:
		r.Cancelled++
	default:
		r.Requeued++
	}
}

// Total is how many leases were expired.
func (r Reaped) Total() int { return r.Requeued + r.Dead + r.Cancelled }

// WorkerReport is what the control plane knows of a worker.
type WorkerReport struct {
	Name          string
	URL           string
	Status        WorkerStatus
	Capabilities  *Capabilities // nil: unknown, keep what is stored
	PostedAt      int64         // when it was last registered there, by that clock and in any unit; 0: not known
	LastSeen      int64         // Unix milliseconds; 0: not known, then being named is a sign of life unless offline
	IPAddrs       []string
	ObsCount      ObsCount // 0: not said
	DBSHA         string
	AgentVersion  string
	OSInfo        string
	InstallMethod string
}

// Stats are the counts shown at a glance.
type Stats struct {
	Tasks   TaskStats   `json:"tasks"`
	Leases  LeaseStats  `json:"leases"`
	Workers WorkerStats `json:"workers"`
}

// TaskStats counts tasks; ByStatus names only statuses that occur.
type TaskStats struct {
	Total    int64                `json:"total"`
	ByStatus map[TaskStatus]int64 `json:"by_status"`
}

// LeaseStats counts leases.
type LeaseStats struct {
	Total  int64 `json:"total"`
	Active int64 `json:"active"`
}

// WorkerStats counts workers.
type WorkerStats struct {
	Total  int64 `json:"total"`
	Online int64 `json:"online"`
}

// StickyGrace is how long a queued task waits for the worker that last held its
// context before anyone may take it.
const StickyGrace = 2 * time.Second

// OfflineAfter is how long a worker may be silent on all sides.
const OfflineAfter = 60 * time.Second

// Cursor is a place in a list that runs from the newest to the oldest: entries
// numbered below Before come next. The zero Cursor is the list's beginning.
type Cursor struct{ Before int64 }

// String is the cursor as it stands in an address; the zero Cursor is "".
func (c Cursor) String() string {
	if c.Before == 0 {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(binary.AppendUvarint(nil, uint64(c.Before)))
}

// ParseCursor reads what String wrote. Anything else is an invalid request.
func ParseCursor(s string) (Cursor, error) {
	if s == "" {
		return Cursor{}, nil
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(s)
	if err == nil {
		if n, size := binary.Uvarint(raw); size == len(raw) && int64(n) > 0 {
			if c := (Cursor{Before: int64(n)}); c.String() == s {
				return c, nil
			}
		}
	}
	return Cursor{}, Invalid("The cursor is not one of ours", FieldError{Field: "cursor", Message: "must come from the Link header of a list"})
}

// MustJSON encodes a value that cannot fail to encode.
func MustJSON(v any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return raw
}
