// Package store implements every write operation of the runtime once, for all
// databases. An operation names rows to read (Rows), applies the rules of
// internal/lifecycle to them (Unit), and records what to write (Changes). table.go
// describes tables; loop.go commits the operations of many callers in one transaction. A
// database loads, commits and answers reads; it contains no rules. See
// docs/development/adr/0008-one-engine-over-two-verbs.md.
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
	Source
	Searcher
	Name() string
	Ping(ctx context.Context) error
	// Dialect returns the database's expressions.
	Dialect() *Dialect
	// OldestWaiting returns since when the open task that has waited longest waits, in Unix
	// milliseconds; 0: there is none.
	OldestWaiting(ctx context.Context) (int64, error)
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
	// Transcripts records which tasks have ended, for DueRunLogs.
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
