package dispatch_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/dispatch"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

// unheard creates tasks for callers that leave before they get a response.
type unheard struct{ contract.Store }

func (u unheard) CreateTask(ctx context.Context, n contract.NewTask) (bloom.Task, bool, error) {
	task, replayed, err := u.Store.CreateTask(ctx, n)
	if err == nil {
		err = context.Canceled
	}
	return task, replayed, err
}

// standing is a clock that stands still: the queue is counted once.
type standing struct{}

func (standing) Now() time.Time { return time.UnixMilli(1_772_000_000_000) }

func TestTasksOfCallersThatHaveGoneCountAgainstTheLimit(t *testing.T) {
	t.Parallel()
	service, store := open(t, func(c *dispatch.Config) {
		c.Store, c.MaxQueuedByActor, c.Clock = unheard{c.Store}, 3, standing{}
	})
	for i := range 10 {
		_, _, err := service.Submit(t.Context(), dispatch.Submission{Actor: "a", Spec: bloom.TaskSpec{
			ContextID: "c", AgentSlug: "a", Prompt: "p", MaxAttempts: 1, Policy: bloom.Policy{TimeoutSec: 1}, DesiredFormat: bloom.FormatText}})
		if want := i >= 3; errors.Is(err, bloom.ErrQueueFull) != want {
			t.Errorf("task %d: %v, want refused %v", i, err, want)
		}
	}
	if st, err := store.Stats(t.Context()); err != nil || st.Tasks.Total != 3 {
		t.Errorf("%d tasks, %v", st.Tasks.Total, err)
	}
}
