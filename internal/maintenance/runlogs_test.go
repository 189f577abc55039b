package maintenance_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/maintenance"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

// streams are due streams, of which the first cannot be read.
type streams struct {
	contract.Store
	bad int64

	mu  sync.Mutex
	due []int64
}

func (s *streams) DueRunLogs(_ context.Context, after int64, limit int) (ids []string, next int64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	next = after
	for _, n := range s.due {
		if n > after && len(ids) < limit {
			ids, next = append(ids, fmt.Sprint(n)), n
		}
	}
	return ids, next, nil
}

func (s *streams) ArchivedTo(_ context.Context, id string) (int64, error) {
	if n, err := strconv.ParseInt(id, 10, 64); err != nil || n <= s.bad {
		return 0, errors.New("the stream cannot be read")
	}
	return 0, nil
}

func (s *streams) Events(context.Context, string, int64, int) ([]bloom.Event, error) { return nil, nil }

func (s *streams) AddRunLogs(_ context.Context, r contract.AddRunLogs) error {
	n, err := strconv.ParseInt(r.TaskID, 10, 64)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.due = slices.DeleteFunc(s.due, func(d int64) bool { return d == n })
	return err
}

// However many transcripts cannot be written, those of later tasks are.
func TestTranscriptsThatFailStopNoOthers(t *testing.T) {
	t.Parallel()
	s := &streams{bad: 1200}
	for n := range int64(1203) {
		s.due = append(s.due, n+1)
	}
	clock := newClock()
	loop := maintenance.NewRunLogs(maintenance.RunLogsConfig{Store: s, Dir: t.TempDir(), Clock: clock}).Loop()
	if res := runOnce(t, loop); res.Changed != 3 {
		t.Errorf("wrote %d, want 3", res.Changed)
	}
	s.due = append(s.due, 2000)
	if res := runOnce(t, loop); res.Changed != 1 || len(s.due) != 1200 {
		t.Errorf("wrote %d while the failed ones rest, want 1; %d are due", res.Changed, len(s.due))
	}
}
