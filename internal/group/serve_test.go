package group_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/bloom-runtime/bloom/internal/group"
)

type books struct{ kept []string }

// serve runs operations as they arrive, each in its own group.
func serve(t *testing.T, b *books) (send func(context.Context, *group.Op[*books]) error) {
	t.Helper()
	q := group.NewQueue[*group.Op[*books]](4)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ops, ok := q.Take(nil); ok; ops, ok = q.Take(nil) {
			for _, o := range ops {
				o.Err = o.Run(b)
				o.Finish()
			}
		}
	}()
	t.Cleanup(func() { q.Stop(); <-done })
	return q.Send
}

func TestACallerGetsWhatItsOperationReturned(t *testing.T) {
	t.Parallel()
	b := &books{}
	send := serve(t, b)
	got, err := group.Do(t.Context(), func(b *books) (int, error) {
		b.kept = append(b.kept, "x")
		return len(b.kept), nil
	}, send)
	if err != nil || got != 1 {
		t.Errorf("%d, %v", got, err)
	}
	refused := errors.New("refused")
	if got, err := group.Do(t.Context(), func(*books) (int, error) { return 7, refused }, send); !errors.Is(err, refused) || got != 0 {
		t.Errorf("%d, %v", got, err)
	}
}

func TestAPanicIsOneOperationsFailure(t *testing.T) {
	t.Parallel()
	send := serve(t, &books{})
	if _, err := group.Do(t.Context(), func(*books) (int, error) { panic("spilt ink") }, send); err == nil || !strings.Contains(err.Error(), "spilt ink") {
		t.Errorf("%v", err)
	}
	if got, err := group.Do(t.Context(), func(*books) (int, error) { return 1, nil }, send); err != nil || got != 1 {
		t.Errorf("the next one: %d, %v", got, err)
	}
}

func TestAnOperationContinuesWithoutItsCaller(t *testing.T) {
	t.Parallel()
	b := &books{}
	send := serve(t, b)
	ctx, cancel := context.WithCancel(t.Context())
	gone, ran := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		_, err := group.Do(ctx, func(b *books) (int, error) {
			cancel()
			<-gone // the caller does not wait for this
			b.kept = append(b.kept, "x")
			close(ran)
			return 1, nil
		}, send)
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
	}()
	<-ran
	if len(b.kept) != 1 {
		t.Error("the operation was not run to its end")
	}
	if _, err := group.Do(ctx, func(*books) (int, error) { t.Error("run for nobody"); return 0, nil }, send); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
