package contract_test

import (
	"strings"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom/internal/store/contract"
)

func TestAgesKeptForEverHaveNoCutoff(t *testing.T) {
	t.Parallel()
	before := contract.Keep{Events: time.Second}.Before(5000)
	if before != (contract.Before{Events: 4000}) {
		t.Errorf("%+v", before)
	}
}

func TestABatchHasBounds(t *testing.T) {
	t.Parallel()
	for limit, want := range map[int]int{-1: contract.DefaultRemoveBatch, 0: contract.DefaultRemoveBatch, 7: 7, 1 << 20: contract.MaxRemoveBatch} {
		if got := (contract.RemoveRequest{Limit: limit}).Batch(); got != want {
			t.Errorf("a limit of %d is %d, want %d", limit, got, want)
		}
	}
}

func TestNothingRemovedHasNoNumbers(t *testing.T) {
	t.Parallel()
	if s := (contract.Removed{}).String(); strings.ContainsAny(s, "0123456789") {
		t.Errorf("nothing is formatted as %q", s)
	}
}
