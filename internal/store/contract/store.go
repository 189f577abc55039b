package contract

import (
	"context"

	"github.com/bloom-runtime/bloom"
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
	ScheduleStore
	ApprovalStore

	// Name returns the name that health shows: "sqlite" or "postgresql".
	Name() string
	// Ping returns an error when the store does not answer.
	Ping(ctx context.Context) error
	// Subscribe calls fn with changes committed by this or any other process, in no particular
	// order, possibly merged, possibly incomplete: hints to read again. fn must not block. stop
	// ends the calls.
	Subscribe(fn func([]bloom.Change)) (stop func())
	// Close waits for writes in progress, then closes. Later calls return ErrUnavailable. Closing
	// twice is allowed.
	Close() error
}
