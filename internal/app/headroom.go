package app

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// headroom is how much more garbage than usual may gather, in bytes. A server's
// own data is a few megabytes, so that Go, which collects when they have doubled,
// does so thirty times a second while PostgreSQL's rows pass through: a sixth of
// the server's processor time. More than this gains nothing. Unlike a higher
// GOGC, which multiplies whatever there is, it is as much for a big server as for
// a small one. With SQLite it would gain 3 %, and machines are small there.
const headroom = 8 << 20

// newHeadroom is memory that the collector takes for live while nobody touches
// it, so that it costs address space only. What opening the server left behind is
// collected first, and its pages are given back should they be used again here.
func newHeadroom() []byte {
	runtime.GC()
	room := make([]byte, headroom)
	_ = unix.Madvise(room, unix.MADV_DONTNEED) // advice: without it they stay in memory
	return room
}
