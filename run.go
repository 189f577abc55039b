package bloom

import "errors"

// Causes with which a worker cancels the context of a run, so that the run
// knows what to make of its end. Set them with context.WithCancelCause.
var (
	// ErrCancelled: the task was cancelled; the run ends with class "cancelled".
	ErrCancelled = errors.New("the task was cancelled")
	// ErrLeaseGone: the lease is no longer the worker's; whatever the run
	// returns is discarded.
	ErrLeaseGone = errors.New("the lease was lost")
	// ErrDraining: the worker stops; the run gives its task back.
	ErrDraining = errors.New("the worker is draining")
)
