package httpapi

import (
	"context"
	"net/http"
	"sync"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/search"
	"github.com/bloom-runtime/bloom/internal/storable"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

// bulkAtOnce is how many tasks of one request are changed concurrently, so that the
// store can batch them.
const bulkAtOnce = 16

func (s *Server) bulkRoutes() {
	for _, op := range []struct {
		search.Bulk
		many, all string
		do        func(store contract.Store, ctx context.Context, id, actor string) (bloom.Task, error)
	}{
		{search.BulkCancel, "Cancel many tasks", "Cancel all tasks that match", contract.Store.Cancel},
		{search.BulkRequeue, "Put many tasks back in the queue", "Put all tasks that match back in the queue", contract.Store.Requeue},
	} {
		handle(s, route{method: http.MethodPost, path: tasksPath + "/" + op.Name, id: op.Name + "-tasks", large: true, summary: op.many, tag: "tasks", body: bloom.TaskIDs{}},
			func(ctx context.Context, c *call, _ *none) (*reply[bloom.TaskOutcomes], error) {
				var in bloom.TaskIDs
				if err := s.decode(c, limitBody, &in); err != nil {
					return nil, err
				}
				results := s.forEach(ctx, c, in.IDs, op.do)
				return &reply[bloom.TaskOutcomes]{http.StatusOK, bloom.TaskOutcomes{Results: results}}, nil
			})
		handle(s, route{method: http.MethodPost, path: tasksPath + "/" + op.Name + "-matching", id: op.Name + "-matching-tasks", large: true, summary: op.all, tag: "tasks", body: bloom.TasksMatching{}},
			func(ctx context.Context, c *call, _ *none) (*reply[bloom.TasksMatched], error) {
				var in bloom.TasksMatching
				if err := s.decode(c, limitBody, &in); err != nil {
					return nil, err
				}
				done, err := s.matching(ctx, c, op.Bulk, in, op.do)
				return &reply[bloom.TasksMatched]{http.StatusOK, done}, err
			})
	}
}

// matching changes the next tasks that match, or counts them.
func (s *Server) matching(ctx context.Context, c *call, op search.Bulk, in bloom.TasksMatching, do func(store contract.Store, ctx context.Context, id, actor string) (bloom.Task, error)) (done bloom.TasksMatched, err error) {
	ids, next, err := s.lists.Matching(ctx, op, in)
	if err != nil {
		return done, err
	}
	done = bloom.TasksMatched{Matched: int64(len(ids)), Next: next}
	if in.DryRun || len(ids) == 0 {
		return done, nil
	}
	for _, r := range s.forEach(ctx, c, ids, do) {
		if r.OK {
			done.Changed++
		}
	}
	return done, s.lists.AuditMatched(ctx, op, in, done, c.caller.Name)
}

// forEach changes each of the tasks. A refusal of one does not affect the others.
func (s *Server) forEach(ctx context.Context, c *call, ids []string, do func(store contract.Store, ctx context.Context, id, actor string) (bloom.Task, error)) []bloom.TaskOutcome {
	results := make([]bloom.TaskOutcome, 0, len(ids))
	seen := make(map[string]bool, len(ids))
	for _, id := range ids {
		if !seen[id] {
			seen[id] = true
			results = append(results, bloom.TaskOutcome{ID: id})
		}
	}
	var wg sync.WaitGroup
	slots := make(chan struct{}, bulkAtOnce)
	for i := range results {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			r := &results[i]
			t, err := bloom.Task{}, error(bloom.ErrTaskNotFound)
			if storable.IsID(r.ID) {
				t, err = do(s.store, ctx, r.ID, c.caller.Name)
			}
			if err != nil {
				f := s.failure(ctx, c.id, err)
				r.Code, r.Error = f.Code, f.Message
				return
			}
			r.OK, r.Status = true, t.Status
		})
	}
	wg.Wait()
	return results
}
