package search_test

import (
	"context"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/search"
	"github.com/bloom-runtime/bloom/internal/store/contract"
	"github.com/bloom-runtime/bloom/internal/store/sqlite"
)

// searched is a real store that runs a function during each search.
type searched struct {
	contract.Store
	during func(context.Context)
}

func (s *searched) Tasks(ctx context.Context, q bloom.TaskQuery) ([]bloom.Task, bloom.Cursor, error) {
	s.during(ctx)
	return s.Store.Tasks(ctx, q)
}

func TestABulkOperationSearchesInTurnAndForALimitedTime(t *testing.T) {
	t.Parallel()
	rows, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "bloom.db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { rows.Close() })
	store := &searched{Store: rows}
	lists := search.New(store, nil, 0)
	var running, searches atomic.Int64
	store.during = func(ctx context.Context) {
		defer running.Add(-1)
		if running.Add(1) > 1 {
			t.Error("two searches of one caller run at once")
			return
		}
		searches.Add(1)
		if _, limited := ctx.Deadline(); !limited {
			t.Error("a search has no time limit")
		}
		soon, cancel := context.WithTimeout(context.Background(), time.Millisecond)
		defer cancel()
		if _, _, err := lists.Tasks(soon, bloom.TaskQuery{Text: "a", Page: bloom.Page{Limit: 1}}); err == nil {
			t.Error("another search did not wait")
		}
	}
	for _, of := range []bloom.TasksMatching{{Text: `"a a" "a a a"`, DryRun: true}, {Labels: []string{"a"}, DryRun: true}} {
		searches.Store(0)
		if _, _, err := lists.Matching(t.Context(), search.BulkCancel, of); err != nil {
			t.Fatal(err)
		}
		if searches.Load() == 0 {
			t.Error("nothing was searched")
		}
	}
	for _, q := range []bloom.TaskQuery{{Labels: []string{"a"}}, {Error: "crash"}, {ShortID: "12345678"}} { // no index answers them
		if _, _, err := lists.Tasks(t.Context(), q); err != nil {
			t.Fatal(err)
		}
	}
}
