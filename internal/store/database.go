// Package store implements every write operation of the runtime once, for all
// databases. An operation names rows to read (Rows), applies the rules of
// internal/lifecycle to them (Unit), and records what to write (Changes). table.go
// describes tables; loop.go commits the operations of many callers in one transaction. A
// database loads, commits and answers reads; it contains no rules. See
// docs/adr/0008-one-engine-over-two-verbs.md.
package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bloom-runtime/bloom"
)

// Database is a database that the store works on.
type Database interface {
	Reader
	Searcher
	// Begin starts a transaction. It may defer all requests to the server until Load.
	Begin(ctx context.Context) (Tx, error)
	// Explain turns a failure into an error that is safe to show to callers.
	Explain(err error) *bloom.Error
	// Notify sends committed changes to other processes. It must not block.
	Notify(changes []bloom.Change)
	// Pools returns the present state of the connection pools.
	Pools() []Pool
	// Close closes all connections. No transaction may be open.
	Close() error
}

// Tx is a transaction. It must not be used by several goroutines at once.
type Tx interface {
	// Load reads what rows wants, and locks the rows of tables. It never waits for a row
	// that another transaction has locked. It may be called several times.
	Load(ctx context.Context, rows *Rows) error
	// Commit writes the changes and ends the transaction, even when it fails.
	Commit(ctx context.Context, c *Changes) error
	// Rollback ends the transaction without changes.
	Rollback()
	// Committed reports, after a Commit that failed with ErrUnknown, whether the
	// transaction's last audit entry was committed. ErrUnreachable and ErrConflict mean
	// that it is not known yet: retry.
	Committed(ctx context.Context, last bloom.Audit) (bool, error)
}

// Kinds of transaction failures. Databases wrap these errors.
var (
	// ErrUnreachable: the server cannot be reached and nothing was committed.
	ErrUnreachable = errors.New("the database is unreachable")
	// ErrUnknown: the connection was lost during the commit.
	ErrUnknown = errors.New("the commit's outcome is unknown")
	// ErrConflict: it conflicted with another transaction and was rolled back. It may be
	// retried.
	ErrConflict = errors.New("the transaction conflicted with another one")
	// ErrTaken: an ErrConflict over a row or a unique value, which the next try sees as it
	// is now. If it fails again, there was no other transaction: the data are bad.
	ErrTaken = fmt.Errorf("%w: a row has changed or a unique value exists", ErrConflict)
)

// Reader is the queries that a database answers directly: single rows, lists and the
// candidates of maintenance batches.
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
	// Keys and Sessions do not set Status, and Sessions includes expired ones.
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

	// Due lists delayed tasks whose time has come (now is in Unix milliseconds) except
	// those named in except, the one that has waited longest first.
	Due(ctx context.Context, now int64, limit int, except []string) (taskIDs []string, err error)
	// FirstOrdered lists the first pending ordered task of up to limit contexts after the
	// given one, in the order of the contexts' ids.
	FirstOrdered(ctx context.Context, after string, limit int) ([]FirstOrdered, error)
	// ActiveLeases lists active leases that expire at before or earlier, except those
	// named in except, the first to expire first.
	ActiveLeases(ctx context.Context, before int64, limit int, except []string) ([]bloom.Lease, error)
	// Unfilled lists the newest tasks that were not backfilled into their contexts yet:
	// those numbered under below. below is 0 if there are none.
	Unfilled(ctx context.Context, limit int) (below int64, taskIDs []string, err error)
	// WaitingContent counts displaced artifacts and local transcripts, together up to
	// bloom.MaxWaiting.
	WaitingContent(ctx context.Context) (int64, error)
	// DueTranscripts lists ended tasks that Config.Transcripts recorded and that have
	// events which are in no transcript, numbered above after, by number. next is the
	// last one's number.
	DueTranscripts(ctx context.Context, after int64, limit int) (taskIDs []string, next int64, err error)
	// OldTasks and OldStreams list tasks numbered above after, by number: all, or those
	// that still have events. OldAudit lists audit entries.
	OldTasks(ctx context.Context, after int64, limit int) ([]Aged, error)
	OldStreams(ctx context.Context, after int64, limit int) ([]Aged, error)
	OldAudit(ctx context.Context, after int64, limit int) ([]AgedAudit, error)
	// OldContexts lists contexts whose newest task is numbered above after, by that
	// number.
	OldContexts(ctx context.Context, after int64, limit int) ([]AgedContext, error)

	AuditHead(ctx context.Context) (bloom.ChainHead, error)
	AuditLinks(ctx context.Context, after int64, limit int) (bloom.ChainHead, bloom.ChainLink, []bloom.ChainLink, error)
	AuditLag(ctx context.Context) (bloom.AuditLag, error)
}

// Config configures the commit loop. The zero value of each field is its default.
type Config struct {
	MaxGroup int           // most operations in one transaction; DefaultMaxGroup
	Queue    int           // operations that may wait before callers block; DefaultQueue
	Gather   time.Duration // least time that a group waits for callers who are about to submit again
	// Parallel is how many transactions may run at once; 0 and 1: one.
	Parallel int
	// Overlap is how long the next group waits for the previous one.
	Overlap time.Duration
	// Committed is called after each transaction that wrote something; it may be nil.
	Committed Committed
	// Patience is how long an operation is retried while the database is unreachable or
	// its rows are locked; DefaultPatience.
	Patience time.Duration
	// Transcripts records which tasks have ended, for DueTranscripts.
	Transcripts bool
	// SealPoll is how often to look for audit entries that another process left
	// unchained; 0: never, no other process uses the database.
	SealPoll time.Duration
}

// Committed receives how many operations a transaction had and how long it took,
// including retries. It may be called by several goroutines at once.
type Committed func(operations int, took time.Duration)

// Pool is the state of one connection pool.
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
