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
