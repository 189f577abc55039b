package httpapi

import (
	"context"
	"net/http"
	"sync"

	"github.com/bloom-runtime/bloom"
)

// bulkAtOnce is how many tasks of one request are changed at the same time: the
// store commits what waits together.
const bulkAtOnce = 16

func (s *Server) bulkRoutes() {
	for _, op := range []struct {
		name, summary string
		do            func(ctx context.Context, id, actor string) (bloom.Task, error)
	}{{"cancel", "Cancel many tasks", s.svc.Cancel}, {"requeue", "Put many tasks back in the queue", s.svc.Requeue}} {
		handle(s, route{method: http.MethodPost, path: tasksPath + "/" + op.name, id: op.name + "-tasks", summary: op.summary, tag: "tasks", body: bloom.TaskIDs{}},
			func(ctx context.Context, c *call, _ *none) (*reply[bloom.TaskOutcomes], error) {
				var in bloom.TaskIDs
				if err := s.decode(c, limitBody, &in); err != nil {
					return nil, err
				}
				results := s.each(ctx, c, in.IDs, op.do)
				return &reply[bloom.TaskOutcomes]{http.StatusOK, bloom.TaskOutcomes{Results: results}}, nil
			})
	}
}

// each does one thing to each of the tasks; one that is refused stops no other.
func (s *Server) each(ctx context.Context, c *call, ids []string, do func(ctx context.Context, id, actor string) (bloom.Task, error)) []bloom.TaskOutcome {
	results := make([]bloom.TaskOutcome, 0, len(ids))
	seen := make(map[string]bool, len(ids))
	for _, id := range ids {
		if !seen[id] {
			seen[id] = true
			results = append(results, bloom.TaskOutcome{ID: id})
		}
	}
	var running sync.WaitGroup
	slots := make(chan struct{}, bulkAtOnce)
	for i := range results {
		slots <- struct{}{}
		running.Go(func() {
			defer func() { <-slots }()
			r := &results[i]
			t, err := do(ctx, r.ID, c.caller.Name)
			if err != nil {
				f := s.failure(ctx, c.id, err)
				r.Code, r.Error = f.Code, f.Message
				return
			}
			r.OK, r.Status = true, t.Status
		})
	}
	running.Wait()
	return results
}
