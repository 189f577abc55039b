package bloom

import "time"

// Clock tells the time. Engines never call time.Now themselves, so that tests
// own the time. The store's clock alone decides whether a lease has expired.
type Clock interface {
	Now() time.Time
}

// SystemClock is the machine's clock. Its readings carry a monotonic part, by
// which a jump of the wall clock can be told from time that really passed.
type SystemClock struct{}

// Now returns the present time.
func (SystemClock) Now() time.Time { return time.Now() }

// Millis is t in Unix epoch milliseconds, the runtime's unit on the wire and in
// the store.
func Millis(t time.Time) int64 { return t.UnixMilli() }
