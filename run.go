package bloom

import (
	"errors"
	"fmt"
)

// Causes with which a worker cancels the context of a run; they decide how the run ends. Set them
// with context.WithCancelCause.
var (
	// ErrCancelled: the task was cancelled; the run ends with class "cancelled".
	ErrCancelled = errors.New("the task was cancelled")
	// ErrLeaseGone: the worker no longer has the lease; the outcome of the run is discarded.
	ErrLeaseGone = errors.New("the lease was lost")
	// ErrLeaseExpired, an ErrLeaseGone: the worker could not renew the lease in time. The server may
	// still accept the outcome of a run that has succeeded.
	ErrLeaseExpired = fmt.Errorf("it was not renewed in time: %w", ErrLeaseGone)
	// ErrDraining: the worker stops; the run releases its task.
	ErrDraining = errors.New("the worker is draining")
)
