package bloom_test

import (
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/bloom-runtime/bloom"
)

func TestCursorsSurviveTheAddress(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := bloom.Cursor{Before: rapid.Int64Min(0).Draw(t, "before")}
		got, err := bloom.ParseCursor(want.String())
		if err != nil || got != want {
			t.Fatalf("%d came back as %d, %v", want.Before, got.Before, err)
		}
	})
}

func FuzzParseCursor(f *testing.F) {
	for _, seed := range []string{"", "AQ", "gAE", "AQ==", "////", "AAAAAAAAAAAAAAAAAAAA", "x y", bloom.Cursor{Before: 1 << 62}.String()} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		c, err := bloom.ParseCursor(s)
		if err != nil {
			if bloom.KindOf(err) != bloom.KindInvalid {
				t.Fatalf("%q: %v is not the caller's fault", s, err)
			}
			return
		}
		if c.Before < 0 || c.String() != s {
			t.Fatalf("%q was read as %+v, which is written %q", s, c, c)
		}
	})
}

func TestErrorsMatchByKindAndCode(t *testing.T) {
	t.Parallel()
	other := &bloom.Error{Kind: bloom.KindConflict, Code: bloom.CodeLeaseLost, Message: "another sentence"}
	if !errors.Is(other, bloom.ErrLeaseLost) || errors.Is(other, bloom.ErrOtherOutcome) {
		t.Error("a lost lease must match by its code, whatever its sentence")
	}
	if cause := errors.New("disk on fire"); !errors.Is(bloom.Internal(cause), cause) || strings.Contains(bloom.Internal(cause).Message, "fire") {
		t.Error("the cause must be reachable for the log and absent from the sentence")
	}
	if bloom.KindOf(errors.New("plain")) != bloom.KindInternal {
		t.Error("a plain error must count as internal")
	}
}

func TestAPageHasASize(t *testing.T) {
	t.Parallel()
	for limit, want := range map[int]int{
		-1: bloom.DefaultPageSize, 0: bloom.DefaultPageSize, 1: 1,
		bloom.MaxPageSize: bloom.MaxPageSize, bloom.MaxPageSize + 1: bloom.MaxPageSize,
	} {
		if got := (bloom.Page{Limit: limit}).Size(); got != want {
			t.Errorf("limit %d: %d entries, want %d", limit, got, want)
		}
	}
}
