package storetest

import (
	"sync"
	"time"
)

// Timed is implemented by stores that do not take the injected clock: the suite
// then moves and reads the store's own time.
type Timed interface {
	Advance(d time.Duration)
	Now() time.Time
}

// Clock is a clock that only moves when told to. Safe for concurrent use.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// NewClock is a clock that stands at a fixed moment.
func NewClock() *Clock { return &Clock{now: time.UnixMilli(1_772_000_000_000)} }

// Now is where the clock stands.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Advance moves the clock, back when d is negative.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}
