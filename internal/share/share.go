// Package share divides a capacity among callers, so that one of them cannot use all of it. It knows
// nothing about what is shared.
package share

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"
)

// Shares is a capacity, of which each caller may use a part at once. It is safe for concurrent use.
type Shares struct {
	most int64 // of one caller
	all  *semaphore.Weighted

	mu      sync.Mutex
	callers map[string]*caller
}

type caller struct {
	*semaphore.Weighted
	name  string
	users int // that have a part, or wait for one
}

// New returns a capacity of all, of which each caller may use most.
func New(all, most int64) *Shares {
	return &Shares{most: most, all: semaphore.NewWeighted(all), callers: map[string]*caller{}}
}

// Part is what a caller has of the capacity. It must not be used by several goroutines at once.
type Part struct {
	of *Shares
	by *caller
	n  int64
}

// Acquire waits for n of the capacity, but at most what one caller may use, in order of arrival,
// first among the caller's own requests. It fails when ctx ends.
func (s *Shares) Acquire(ctx context.Context, name string, n int64) (*Part, error) {
	p := &Part{of: s, by: s.enter(name), n: min(n, s.most)}
	if err := p.by.Acquire(ctx, p.n); err != nil {
		s.leave(p.by)
		return nil, err
	}
	if err := s.all.Acquire(ctx, p.n); err != nil {
		p.by.Release(p.n)
		s.leave(p.by)
		return nil, err
	}
	return p, nil
}

// Shrink returns all but n of the part. After Shrink(0) the part must not be used.
func (p *Part) Shrink(n int64) {
	if less := p.n - n; less > 0 {
		p.of.all.Release(less)
		p.by.Release(less)
		p.n = n
	}
	if n == 0 {
		p.of.leave(p.by)
	}
}

func (s *Shares) enter(name string) *caller {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.callers[name]
	if c == nil {
		c = &caller{Weighted: semaphore.NewWeighted(s.most), name: name}
		s.callers[name] = c
	}
	c.users++
	return c
}

func (s *Shares) leave(c *caller) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.users--; c.users == 0 {
		delete(s.callers, c.name)
	}
}
