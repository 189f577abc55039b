package app_test

import (
	"runtime"
	"runtime/metrics"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/bloom-runtime/bloom/internal/app"
)

// Not parallel: what other tests leave could be collected into the goal.
func TestHeadroomCountsAsLiveAndTakesNoMemory(t *testing.T) {
	used := make([]byte, 4*app.Headroom) // whose pages the headroom is to get
	for i := range used {
		used[i] = 1
	}
	runtime.KeepAlive(used)
	room := app.NewHeadroom()
	defer runtime.KeepAlive(room)
	if n := resident(t, room); n != 0 {
		t.Errorf("%d of its pages are in memory", n)
	}
	runtime.GC()
	goal := []metrics.Sample{{Name: "/gc/heap/goal:bytes"}}
	metrics.Read(goal)
	if got := goal[0].Value.Uint64(); got < 2*app.Headroom {
		t.Errorf("the collector runs at %d bytes, want at least %d", got, 2*app.Headroom)
	}
}

// resident counts the pages of b that are in memory.
func resident(t *testing.T, b []byte) (pages int) {
	t.Helper()
	state := make([]byte, len(b)/unix.Getpagesize())
	_, _, err := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)), uintptr(unsafe.Pointer(&state[0])))
	if err != 0 {
		t.Fatal(err)
	}
	for _, s := range state {
		pages += int(s & 1)
	}
	return pages
}
