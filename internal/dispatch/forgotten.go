package dispatch

import (
	"context"
	"sync"
	"time"

	"github.com/bloom-runtime/bloom"
)

// ForgetContext forgets a context: here at once, on workers with their next claims.
func (s *Service) ForgetContext(ctx context.Context, id, actor string) error {
	return s.store.ForgetContext(ctx, bloom.CleanText(id), actor)
}

// forgottenFor is how long the cached number is used.
const forgottenFor = 2 * time.Second

// forgotten caches the number of the last forgotten context, so that most claims need
// no query.
type forgotten struct {
	mu   sync.Mutex
	last int64
	at   time.Time
}

// Forgotten lists contexts that were forgotten after the given number, oldest first,
// at most one page. A context forgotten less than forgottenFor ago may be missing.
func (s *Service) Forgotten(ctx context.Context, after int64) ([]bloom.ForgottenContext, error) {
	f := &s.forgot
	f.mu.Lock()
	defer f.mu.Unlock()
	now := s.clock.Now()
	if after >= f.last && now.Sub(f.at) < forgottenFor {
		return nil, nil
	}
	list, err := s.store.Forgotten(ctx, after, bloom.DefaultPageSize)
	if err == nil && len(list) < bloom.DefaultPageSize {
		f.at = now
	}
	for _, x := range list {
		f.last = max(f.last, x.Seq)
	}
	return list, err
}
