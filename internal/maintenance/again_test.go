package maintenance_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bloom-runtime/bloom/internal/maintenance"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

// indexer is a store whose search index is up to date; the first call fails.
type indexer struct {
	contract.SearchStore
	ran []time.Time
}

func (x *indexer) IndexTasks(context.Context, contract.ReadContent) (int, bool, error) {
	x.ran = append(x.ran, time.Now())
	if len(x.ran) == 1 {
		return 0, false, errors.New("the database is down")
	}
	return 0, false, nil
}

// A loop that runs once an hour must not wait an hour after its leader died or the database was
// briefly unavailable.
func TestAFailedLoopIsRetriedSoon(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		x := &indexer{}
		asked := 0
		loop := maintenance.NewSearch(maintenance.SearchConfig{Store: x, Every: time.Hour}).OnlyLeader(func(context.Context) (bool, error) {
			asked++
			return asked > 2, nil // another replica is the leader twice
		})
		began := time.Now()
		loop.Start()
		time.Sleep(150 * time.Minute) // of synctest's clock
		loop.Stop()
		if len(x.ran) != 4 || x.ran[0].Sub(began) != 20*time.Second || x.ran[1].Sub(x.ran[0]) != 10*time.Second || x.ran[2].Sub(began) != time.Hour {
			t.Fatalf("ran %v after %v", x.ran, began)
		}
	})
}
