package claude

import (
	"context"
	"errors"

	"github.com/bloom-runtime/bloom/internal/attempt"
	"github.com/bloom-runtime/bloom/internal/retry"
)

// keeping returns the context in which the transcript and the folder of a run that has
// ended are uploaded. The uploads end when the lease ends, and a little later when the run is
// cancelled or the worker stops, so that it still delivers the outcome: what was not
// uploaded then counts only here, once the outcome is accepted.
func (t *taskRun) keeping(run context.Context) (context.Context, context.CancelFunc) {
	ctx, end := context.WithCancelCause(context.WithoutCancel(run))
	unhook := context.AfterFunc(run, func() {
		cause := context.Cause(run)
		if errors.Is(cause, attempt.ErrLeaseGone) || retry.Sleep(ctx, t.config.UploadGrace) == nil {
			end(cause)
		}
	})
	if errors.Is(context.Cause(run), attempt.ErrLeaseGone) {
		end(context.Cause(run)) // at once: the hook runs in the background
	}
	return ctx, func() {
		unhook()
		end(nil)
	}
}
