package bloom

import "errors"

// Causes with which a worker cancels the context of a run; they decide how the run ends. Set them
// with context.WithCancelCause.
var (
	// ErrCancelled: the task was cancelled; the run ends with class "cancelled".
	ErrCancelled = errors.New("the task was cancelled")
	// ErrLeaseGone: the worker no longer has the lease, or could not renew it in time. The server
	// may still accept the outcome of a run that has succeeded.
	ErrLeaseGone = errors.New("the lease was lost")
	// ErrDraining: the worker stops; the run releases its task.
	ErrDraining = errors.New("the worker is draining")
)
