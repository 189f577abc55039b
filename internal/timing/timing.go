package timing

import "time"

// Clock returns the current time. Engines never call time.Now themselves, so that tests control
// time. Only the store's clock decides whether a lease has expired.
type Clock interface {
	Now() time.Time
}

// System is the machine's clock. Its readings have a monotonic part, which distinguishes elapsed
// time from a jump of the wall clock.
type System struct{}

// Now returns the present time.
func (System) Now() time.Time { return time.Now() }

// Millis returns t in Unix milliseconds, the runtime's unit on the wire and in the store.
func Millis(t time.Time) int64 { return t.UnixMilli() }
