package httpapi

import (
	"context"
	"net/http"

	"github.com/bloom-runtime/bloom"
)

type scheduleName struct {
	Name string `path:"name" doc:"The schedule's name, 1 to 64 characters"`
}

type scheduleRemoved struct {
	Removed bool   `json:"removed"`
	Name    string `json:"name"`
}

// limitSchedule is small, because all schedules are read at once.
const limitSchedule = 32 << 10

func (s *Server) scheduleRoutes() {
	const path = runtimePath + "/schedules"
	of := path + "/{name}"
	handle(s, route{method: http.MethodGet, path: path, id: "list-schedules", summary: "Schedules, which start tasks by the clock", tag: "tasks"},
		func(ctx context.Context, _ *call, _ *none) (*reply[[]bloom.Schedule], error) {
			list, err := s.svc.Schedules(ctx)
			return &reply[[]bloom.Schedule]{http.StatusOK, list}, err
		})
	handle(s, route{method: http.MethodGet, path: of, id: "get-schedule", summary: "One schedule, its next times and its last ones", tag: "tasks"},
		func(ctx context.Context, _ *call, in *scheduleName) (*reply[bloom.Schedule], error) {
			return scheduleReply(s.svc.Schedule(ctx, in.Name))
		})
	handle(s, route{method: http.MethodPut, path: of, id: "save-schedule", summary: "Create or replace a schedule", tag: "tasks", body: bloom.ScheduleSpec{}},
		func(ctx context.Context, c *call, in *scheduleName) (*reply[bloom.Schedule], error) {
			var spec bloom.ScheduleSpec
			if err := s.decode(c, limitSchedule, &spec); err != nil {
				return nil, err
			}
			return scheduleReply(s.svc.SaveSchedule(ctx, in.Name, spec, c.caller.Name))
		})
	handle(s, route{method: http.MethodDelete, path: of, id: "remove-schedule", summary: "Remove a schedule", tag: "tasks"},
		func(ctx context.Context, c *call, in *scheduleName) (*reply[scheduleRemoved], error) {
			err := s.svc.RemoveSchedule(ctx, in.Name, c.caller.Name)
			return &reply[scheduleRemoved]{http.StatusOK, scheduleRemoved{true, in.Name}}, err
		})
	handle(s, route{method: http.MethodPost, path: of + "/run", id: "run-schedule", large: true, summary: "Start a schedule's task now", tag: "tasks", status: http.StatusCreated},
		func(ctx context.Context, c *call, in *scheduleName) (*reply[bloom.Task], error) {
			task, err := s.svc.RunSchedule(ctx, in.Name, c.caller.Name)
			return &reply[bloom.Task]{http.StatusCreated, task}, err
		})
	for _, to := range []struct {
		word, summary string
		paused        bool
	}{{"pause", "Pause a schedule", true}, {"resume", "Resume a schedule", false}} {
		handle(s, route{method: http.MethodPost, path: of + "/" + to.word, id: to.word + "-schedule", large: true, summary: to.summary, tag: "tasks"},
			func(ctx context.Context, c *call, in *scheduleName) (*reply[bloom.Schedule], error) {
				return scheduleReply(s.svc.PauseSchedule(ctx, in.Name, to.paused, c.caller.Name))
			})
	}
}

func scheduleReply(is bloom.Schedule, err error) (*reply[bloom.Schedule], error) {
	return &reply[bloom.Schedule]{http.StatusOK, is}, err
}
