package share_test

import (
	"context"
	"testing"

	"github.com/bloom-runtime/bloom/internal/share"
)

func TestOneCallerLeavesRoomForOthers(t *testing.T) {
	t.Parallel()
	s := share.New(4, 2)
	ended, end := context.WithCancel(t.Context())
	end()
	acquire := func(name string, n int64) *share.Part {
		t.Helper()
		p, err := s.Acquire(t.Context(), name, n)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	refused := func(name string, n int64) {
		t.Helper()
		if _, err := s.Acquire(ended, name, n); err == nil {
			t.Fatalf("%s got %d more", name, n)
		}
	}
	a := acquire("a", 100) // as much as a caller may
	refused("a", 1)
	b := acquire("b", 2)
	refused("c", 1)
	a.Shrink(1)
	acquire("a", 1).Shrink(0)
	acquire("c", 1).Shrink(0)
	a.Shrink(0)
	b.Shrink(0)
	acquire("c", 2).Shrink(0)
}
