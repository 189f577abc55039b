package memory_test

import (
	"errors"
	"testing"

	_ "modernc.org/sqlite" // the plugin's database

	"github.com/bloom-runtime/bloom/internal/memory"
	"github.com/bloom-runtime/bloom/internal/objects"
)

// catchesUp: a node that becomes primary without having the stored memory pulls it first, unless
// that would discard local changes.
func catchesUp(t *testing.T, b *objects.Bucket) {
	one, two := newNode(t, b, "one"), newNode(t, b, "two")
	first, second := &memory.Syncer{Project: one.Project}, &memory.Syncer{Project: two.Project}
	sync := func(s *memory.Syncer) memory.Synced {
		t.Helper()
		out, err := s.Sync(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	choose := func(node string) {
		t.Helper()
		if _, err := one.Select(t.Context(), node, 0, false); err != nil {
			t.Fatal(err)
		}
	}
	if out := sync(second); out.Pushed != nil || out.Pulled != nil {
		t.Fatalf("a node without a memory did %+v", out)
	}
	one.write("a")
	if out := sync(first); out.Pushed == nil {
		t.Fatal("the first node did not push")
	}
	sync(second)
	two.want("a")
	one.write("b")
	sync(first)
	choose("two")
	if out := sync(second); out.Pulled == nil {
		t.Fatalf("the new primary did %+v", out)
	}
	two.want("a", "b")
	two.write("c")
	if out := sync(second); out.Pushed == nil {
		t.Fatalf("the new primary did %+v", out)
	}
	one.write("only here")
	choose("one")
	var diverged *memory.DivergedError
	if _, err := first.Sync(t.Context()); !errors.As(err, &diverged) || diverged.PushedBy != "two" {
		t.Fatalf("a primary that would discard a memory: %v", err)
	}
	one.want("a", "b", "only here")
	one.push()
	if out := sync(second); out.Pulled == nil {
		t.Fatalf("the former primary did %+v", out)
	}
	two.want("a", "b", "only here")
}
