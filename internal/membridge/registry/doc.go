// Package registry is the control plane's vocabulary: agents, projects, nodes,
// leadership and sync jobs, the rules between them as pure functions, and the
// contract that its stores keep.
//
// It must know neither SQL nor HTTP. Times on membridge's wire are Unix seconds
// (see the wire contract), so the nouns carry Seconds and can be served as they
// are; the stores keep milliseconds.
package registry

import "time"

// Seconds is a moment in Unix seconds with a fraction, membridge's unit.
type Seconds = float64

// ToSeconds converts a moment to membridge's unit, to the millisecond.
func ToSeconds(t time.Time) Seconds { return MillisToSeconds(t.UnixMilli()) }

// MillisToSeconds converts Unix milliseconds, the stores' unit.
func MillisToSeconds(ms int64) Seconds { return float64(ms) / 1000 }
