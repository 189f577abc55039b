package storetest

import (
	"sync"
	"time"
)

// Timed is implemented by stores that do not use the injected clock. The suite then moves
// and reads the store's own time.
type Timed interface {
	Advance(d time.Duration)
	Now() time.Time
}

// Clock is a manual clock. It is safe for concurrent use.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// NewClock returns a clock at a fixed time.
func NewClock() *Clock { return &Clock{now: time.UnixMilli(1_772_000_000_000)} }

// Now returns the clock's time.
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
