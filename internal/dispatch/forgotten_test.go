package dispatch_test

import (
	"context"
	"testing"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/dispatch"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

// slowReads answers reads of forgotten contexts only when it is released.
type slowReads struct {
	contract.Store
	began, release chan struct{}
}

func (s slowReads) Forgotten(ctx context.Context, after int64, limit int) ([]bloom.ForgottenContext, error) {
	s.began <- struct{}{}
	select {
	case <-s.release:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return s.Store.Forgotten(ctx, after, limit)
}

func TestASlowReadOfForgottenContextsDelaysNoOtherClaim(t *testing.T) {
	t.Parallel()
	slow := slowReads{began: make(chan struct{}), release: make(chan struct{})}
	service, _ := open(t, func(c *dispatch.Config) {
		slow.Store = c.Store
		c.Store, c.Clock = slow, standing{}
	})
	asked := make(chan error, 1)
	go func() {
		_, _, err := service.Forgotten(t.Context(), 0, "")
		asked <- err
	}()
	<-slow.began
	if list, _, err := service.Forgotten(t.Context(), 0, ""); err != nil || list != nil {
		t.Errorf("while another claim reads: %v, %v", list, err)
	}
	close(slow.release)
	if err := <-asked; err != nil {
		t.Error(err)
	}
	if list, _, err := service.Forgotten(t.Context(), 0, ""); err != nil || list != nil { // cached: no other read begins
		t.Errorf("afterwards: %v, %v", list, err)
	}
}

// restored has two forgotten contexts.
type restored struct{ contract.Store }

func (restored) Forgotten(_ context.Context, after int64, _ int) ([]bloom.ForgottenContext, error) {
	list := []bloom.ForgottenContext{{Seq: 1, ID: "a"}, {Seq: 2, ID: "b"}}
	return list[min(after, 2):], nil
}

// After a restore of the database all workers know another one.
func TestEachWorkersLastForgottenContextIsChecked(t *testing.T) {
	t.Parallel()
	service, _ := open(t, func(c *dispatch.Config) { c.Store, c.Clock = restored{c.Store}, standing{} })
	for _, known := range []struct {
		seq  int64
		id   string
		want int
	}{{0, "", 2}, {57, "of another database", 2}, {57, "of another database", 2}, {2, "of another database", 2}, {1, "a", 1}, {2, "b", 0}, {58, "of another", 2}} {
		list, all, err := service.Forgotten(t.Context(), known.seq, known.id)
		if err != nil || len(list) != known.want || all != (known.want == 2 && known.seq > 0) {
			t.Errorf("a worker that knows %d %q gets %+v, %v, %v", known.seq, known.id, list, all, err)
		}
	}
}
