// Package registry is the control plane's vocabulary: agents, projects, nodes, leadership and sync
// jobs, their rules as pure functions, and the contract of its stores.
//
// It must import neither SQL nor HTTP. Times on membridge's wire are Unix seconds (see the wire
// contract), so the types have Seconds and can be served unchanged; the stores keep milliseconds.
package registry

import "time"

// Seconds is a time in Unix seconds with a fraction, membridge's unit.
type Seconds = float64

// ToSeconds converts a time to membridge's unit, to the millisecond.
func ToSeconds(t time.Time) Seconds { return MillisToSeconds(t.UnixMilli()) }

// MillisToSeconds converts Unix milliseconds, the stores' unit.
func MillisToSeconds(ms int64) Seconds { return float64(ms) / 1000 }
