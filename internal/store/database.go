// Package store holds every write operation of the runtime once, for all
// databases. An operation names what it needs to read (a ReadSet), decides with the
// rules of internal/lifecycle on the rows that were read and locked for it (a Unit), and
// leaves what is to be written (Changes). Many callers' operations share one
// transaction; see loop.go. A database loads and commits, and answers reads; it
// contains no rule. docs/adr/0008-one-engine-over-two-verbs.md says why.
package store

import (
	"context"
	"errors"
	"time"

	"github.com/bloom-runtime/bloom"
)

// Database is what this package needs of a database.
type Database interface {
	Reader
	Searcher
	// Begin starts a transaction; no request need reach the server before Load.
	Begin(ctx context.Context) (Tx, error)
	// Explain turns a failure into something that may be shown.
	Explain(err error) *bloom.Error
	// Tell lets other processes know of committed changes. It must not block.
	Tell(changes []bloom.Change)
	// Pools are its connections now.
	Pools() []Pool
	// Close ends reads and connections, after the last transaction has ended.
	Close() error
}

// Tx is a transaction. One goroutine uses it.
type Tx interface {
	// Load reads what is wanted into rows and locks what ReadSet says is locked. It
	// never waits for a row that somebody else has locked: such a row is noted in
	// rows.Busy. It may be called several times; rows that were loaded stay.
	Load(ctx context.Context, want *ReadSet, rows *Rows) error
	// Commit writes the changes and ends the transaction, also when it fails.
	Commit(ctx context.Context, c *Changes) error
	// Rollback ends the transaction without changes.
	Rollback()
	// Stands finds out, after a Commit that failed with ErrUnknown, whether the
	// entry of the audit with that id was committed. ErrAway and ErrConflict: not
	// known yet, ask again.
	Stands(ctx context.Context, last bloom.Audit) (bool, error)
}

// How a transaction may fail apart from plain errors. Databases wrap these.
var (
	// ErrAway: the connection or the server is gone and nothing was committed.
	ErrAway = errors.New("the database is away")
	// ErrUnknown: the connection was lost at the commit.
	ErrUnknown = errors.New("the commit's outcome is unknown")
	// ErrConflict: it met another transaction and was undone. It may be repeated.
	ErrConflict = errors.New("the transaction met another one")
)

// Reader is what a database answers without this package: single entries, lists
// and what the batches of maintenance look for.
type Reader interface {
	Name() string
	Ping(ctx context.Context) error
	Task(ctx context.Context, id string) (bloom.Task, error)
	QueuePlace(ctx context.Context, id string) (bloom.QueuePlace, error)
	Tasks(ctx context.Context, q bloom.TaskQuery) ([]bloom.Task, bloom.Cursor, error)
	Events(ctx context.Context, taskID string, after int64, limit int) ([]bloom.Event, error)
	Results(ctx context.Context, taskID string) ([]bloom.Result, error)
	Stats(ctx context.Context) (bloom.Stats, error)
	QueuedBy(ctx context.Context, actor string, most int64) (int64, error)
	QueueDepths(ctx context.Context, sets, tasks int) ([]bloom.QueueDepth, error)
	HeldBack(ctx context.Context, gate bloom.Gate, most int) (bloom.HeldBack, error)
	Lease(ctx context.Context, taskID, leaseID string) (bloom.Lease, error)
	Leases(ctx context.Context, q bloom.LeaseQuery) ([]bloom.Lease, bloom.Cursor, error)
	Worker(ctx context.Context, id string) (bloom.Worker, []bloom.Lease, error)
	Workers(ctx context.Context) ([]bloom.Worker, error)
	WorkersAfter(ctx context.Context, name string, n int) ([]bloom.Worker, error)
	ControlDrained(ctx context.Context) ([]string, error)
	WorkerLogs(ctx context.Context, id string) (bloom.WorkerLogs, error)
	Artifact(ctx context.Context, id string) (bloom.Artifact, error)
	Artifacts(ctx context.Context, q bloom.ArtifactQuery) ([]bloom.Artifact, bloom.Cursor, error)
	Audit(ctx context.Context, q bloom.AuditQuery) ([]bloom.Audit, bloom.Cursor, error)
	Settings(ctx context.Context) (map[string]string, error)
	Context(ctx context.Context, id string) (bloom.Context, error)
	Contexts(ctx context.Context, q bloom.ContextQuery) ([]bloom.Context, bloom.Cursor, error)
	Series(ctx context.Context, from, to, step int64) ([]bloom.SeriesPoint, error)
	OldestWaiting(ctx context.Context) (int64, error)
	Key(ctx context.Context, id string) (bloom.StoredKey, error)
	// Keys and Sessions leave Status to others, and expired sessions in.
	Keys(ctx context.Context, p bloom.Page) ([]bloom.APIKey, bloom.Cursor, error)
	AnyKey(ctx context.Context) (bool, error)
	Session(ctx context.Context, id string) (bloom.StoredSession, error)
	Sessions(ctx context.Context, p bloom.Page) ([]bloom.BrowserSession, bloom.Cursor, error)
	Transcript(ctx context.Context, contextID string) (*bloom.Transcript, error)
	TranscriptIn(ctx context.Context, folder string) (*bloom.Transcript, error)
	Transcripts(ctx context.Context, after string, limit int, local bool) ([]bloom.ContextTranscript, error)
	Forgotten(ctx context.Context, after int64, limit int) ([]bloom.ForgottenContext, error)
	RemovedContent(ctx context.Context, after int64, limit int) ([]bloom.RemovedContent, error)

	TaskTexts(ctx context.Context, ids []string) ([]bloom.TaskText, error)

	// Due lists delayed tasks whose time has come (now is Unix milliseconds), but not
	// those of except, the one that has waited longest first.
	Due(ctx context.Context, now int64, limit int, except []string) (taskIDs []string, err error)
	// ActiveLeases lists active leases that expire at before or earlier, but not
	// those of except, the first to expire first.
	ActiveLeases(ctx context.Context, before int64, limit int, except []string) ([]bloom.Lease, error)
	// Unfilled lists the newest of the tasks that are in no context yet, which are those
	// numbered below. 0: there are none.
	Unfilled(ctx context.Context, limit int) (below int64, taskIDs []string, err error)
	// WaitingContent counts displaced artifacts and local transcripts, together up to
	// bloom.MaxWaiting.
	WaitingContent(ctx context.Context) (int64, error)
	// DueTranscripts lists ended tasks that Config.Transcripts noted, and whose streams
	// do not wholly lie in transcripts, numbered above after, in the order of their
	// numbers. next is the last one's number.
	DueTranscripts(ctx context.Context, after int64, limit int) (taskIDs []string, next int64, err error)
	// OldTasks and OldStreams list tasks numbered above after, in the order of their
	// numbers: all of them, or those that still have events. OldAudit lists entries
	// of the audit.
	OldTasks(ctx context.Context, after int64, limit int) ([]Aged, error)
	OldStreams(ctx context.Context, after int64, limit int) ([]Aged, error)
	OldAudit(ctx context.Context, after int64, limit int) ([]AgedAudit, error)
	// OldContexts lists contexts whose newest tasks are numbered above after, in the order
	// of those numbers.
	OldContexts(ctx context.Context, after int64, limit int) ([]AgedContext, error)

	AuditHead(ctx context.Context) (bloom.ChainHead, error)
	AuditLinks(ctx context.Context, after int64, limit int) (bloom.ChainHead, bloom.ChainLink, []bloom.ChainLink, error)
	AuditLag(ctx context.Context) (bloom.AuditLag, error)
}

// Config says how operations are grouped. Every field may be 0 for its default.
type Config struct {
	MaxGroup int           // operations committed together at most; DefaultMaxGroup
	Queue    int           // operations that may wait before callers block; DefaultQueue
	Gather   time.Duration // how long a group waits at least for callers that are about to ask again
	// Parallel is how many transactions may run at once; 0 or 1: one after the other.
	Parallel int
	// Overlap is after how long the next group no longer waits for the one before.
	Overlap time.Duration
	// Committed hears of each transaction that was written; nil: nobody does.
	Committed Committed
	// Patience is how long an operation is tried again while the server is away or
	// somebody else holds its rows; DefaultPatience.
	Patience time.Duration
	// Transcripts notes which tasks have ended, for DueTranscripts.
	Transcripts bool
	// SealPoll is how often is looked for entries of the audit that another process
	// left unchained; 0: never, the database is this process's own.
	SealPoll time.Duration
}

// Committed hears how many operations a transaction had, and how long it took with all
// its attempts. It may be called by several goroutines at once.
type Committed func(operations int, took time.Duration)

// Pool is the connections of one kind.
type Pool struct {
	Name            string // "read" or "write"
	Used, Open, Max int
}

// Defaults of a Config.
const (
	DefaultMaxGroup = 128
	DefaultQueue    = 1024
	DefaultPatience = 10 * time.Second
)
