package attempt

import (
	"errors"

	"github.com/bloom-runtime/bloom"
)

// Run is the outcome of running a task: either a completion to report, or a release when the
// attempt should not count.
type Run struct {
	Completion bloom.Completion
	// Release, when not nil, releases the task instead of completing it.
	Release *bloom.ReleaseSpec
	// Suspend, when not nil, suspends the task instead, which waits for a person.
	Suspend *bloom.SuspendSpec
	// Refused means that the model's provider refused the worker's credentials, that there are
	// none, or that they are limited and it is not known until when: the next task would fail, too.
	Refused bool
}

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
