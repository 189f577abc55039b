package httpapi

import (
	"context"
	"net/http"

	"github.com/bloom-runtime/bloom"
)

type filterName struct {
	Name string `path:"name" doc:"The filter's name, 1 to 64 characters"`
}

type filterRemoved struct {
	Removed bool   `json:"removed"`
	Name    string `json:"name"`
}

func (s *Server) filterRoutes() {
	const path = runtimePath + "/filters"
	handle(s, route{method: http.MethodGet, path: path, id: "list-filters", summary: "Saved filters for the list of tasks", tag: "tasks"},
		func(ctx context.Context, _ *call, _ *none) (*reply[[]bloom.TaskFilter], error) {
			list, err := s.svc.Filters(ctx)
			return &reply[[]bloom.TaskFilter]{http.StatusOK, list}, err
		})
	handle(s, route{method: http.MethodGet, path: path + "/{name}", id: "get-filter", summary: "One saved filter", tag: "tasks"},
		func(ctx context.Context, _ *call, in *filterName) (*reply[bloom.TaskFilter], error) {
			f, err := s.svc.Filter(ctx, in.Name)
			return &reply[bloom.TaskFilter]{http.StatusOK, f}, err
		})
	handle(s, route{method: http.MethodPut, path: path + "/{name}", id: "save-filter", summary: "Save a filter under a name", tag: "tasks", body: bloom.TaskFilter{}},
		func(ctx context.Context, c *call, in *filterName) (*reply[bloom.TaskFilter], error) {
			var f bloom.TaskFilter
			if err := s.decode(c, limitBody, &f); err != nil {
				return nil, err
			}
			f.Name = in.Name
			f, err := s.svc.SaveFilter(ctx, f, c.caller.Name)
			return &reply[bloom.TaskFilter]{http.StatusOK, f}, err
		})
	handle(s, route{method: http.MethodDelete, path: path + "/{name}", id: "remove-filter", summary: "Delete a saved filter", tag: "tasks"},
		func(ctx context.Context, c *call, in *filterName) (*reply[filterRemoved], error) {
			err := s.svc.RemoveFilter(ctx, in.Name, c.caller.Name)
			return &reply[filterRemoved]{http.StatusOK, filterRemoved{true, in.Name}}, err
		})
}
