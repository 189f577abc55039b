package bloom_test

import (
	"strings"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
)

func TestAgesKeptForEverHaveNoCutoff(t *testing.T) {
	t.Parallel()
	before := bloom.Keep{Events: time.Second}.Before(5000)
	if before != (bloom.Before{Events: 4000}) {
		t.Errorf("%+v", before)
	}
}

func TestABatchHasBounds(t *testing.T) {
	t.Parallel()
	for limit, want := range map[int]int{-1: bloom.DefaultRemoveBatch, 0: bloom.DefaultRemoveBatch, 7: 7, 1 << 20: bloom.MaxRemoveBatch} {
		if got := (bloom.RemoveRequest{Limit: limit}).Batch(); got != want {
			t.Errorf("a limit of %d is %d, want %d", limit, got, want)
		}
	}
}

func TestNothingRemovedHasNoNumbers(t *testing.T) {
	t.Parallel()
	if s := (bloom.Removed{}).String(); strings.ContainsAny(s, "0123456789") {
		t.Errorf("nothing is formatted as %q", s)
	}
}
