package httpapi

import (
	"context"
	"net/http"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/dispatch"
	"github.com/bloom-runtime/bloom/internal/input"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

const tasksPath = runtimePath + "/llm-tasks"

type createInput struct {
	Key string `header:"Idempotency-Key" doc:"A key chosen by the caller; a repeated request with it returns the first task"`
}

type taskFilter struct {
	TextPaging
	Status    string   `query:"status" enum:"queued,leased,running,completed,failed,dead,cancelled"`
	ContextID string   `query:"context_id"`
	AgentSlug string   `query:"agent_slug"`
	WorkerID  string   `query:"worker_id"`
	Error     string   `query:"error_class"`
	Label     []string `query:"label,explode" maxItems:"8" doc:"A label that the task requires (repeatable)"`
	Since     number   `query:"since" doc:"Only tasks created at this time or later, Unix milliseconds"`
	Until     number   `query:"until" doc:"Only tasks created before this time, Unix milliseconds"`
	ShortID   string   `query:"short_id" doc:"The last 8 characters of the id, as the web application shows it"`
	Text      string   `query:"q" doc:"Full-text search in prompts and newest outputs: words, \"phrases\", and prefixes with an asterisk; the last word is a prefix. Or a part of the id, at least 4 characters. Tasks then have a snippet; a page has at most 100 tasks, with texts of at most 4 KiB"`
}

func (s *Server) taskRoutes() {
	s.bulkRoutes()
	handle(s, route{method: http.MethodPost, path: tasksPath, id: "create-task", summary: "Create a task", tag: "tasks", status: http.StatusCreated, body: bloom.TaskSpec{}}, s.createTask)
	s.attachmentRoutes()
	handle(s, route{method: http.MethodGet, path: tasksPath, id: "list-tasks", unpaged: true, summary: "Tasks, newest first", tag: "tasks"}, s.listTasks)
	handle(s, route{method: http.MethodGet, path: tasksPath + "/{id}", id: "get-task", summary: "One task", tag: "tasks"},
		func(ctx context.Context, _ *call, in *pathID) (*reply[bloom.Task], error) {
			t, err := s.store.Task(ctx, in.ID)
			if err != nil {
				return nil, err
			}
			return taskReply(s.problems.Explain(ctx, t))
		})
	handle(s, route{method: http.MethodPost, path: tasksPath + "/{id}/cancel", id: "cancel-task", large: true, summary: "Cancel a task", tag: "tasks"},
		func(ctx context.Context, c *call, in *pathID) (*reply[bloom.Task], error) {
			return taskReply(s.store.Cancel(ctx, in.ID, c.caller.Name))
		})
	handle(s, route{method: http.MethodPost, path: tasksPath + "/{id}/dispatch", id: "dispatch-task", summary: "Make sure that a worker can run a task", tag: "tasks", body: dispatchBody{}}, s.dispatchTask)
	handle(s, route{method: http.MethodPost, path: tasksPath + "/{id}/requeue", id: "requeue-task", large: true, summary: "Put a failed, dead or cancelled task back in the queue", tag: "tasks"},
		func(ctx context.Context, c *call, in *pathID) (*reply[bloom.Task], error) {
			return taskReply(s.store.Requeue(ctx, in.ID, c.caller.Name))
		})
	handle(s, route{method: http.MethodGet, path: tasksPath + "/{id}/results", id: "task-results", summary: "A task's results, newest first", tag: "tasks"},
		func(ctx context.Context, _ *call, in *pathID) (*reply[resultList], error) {
			results, newest, err := s.lists.Results(ctx, in.ID)
			return &reply[resultList]{http.StatusOK, resultList{results, newest}}, err
		})
	handle(s, route{method: http.MethodGet, path: runtimePath + "/runs", id: "list-runs", summary: "The last 50 tasks", tag: "tasks"},
		func(ctx context.Context, c *call, _ *none) (*page[bloom.Task], error) {
			tasks, _, err := s.lists.Tasks(ctx, bloom.TaskQuery{Page: bloom.Page{Limit: 50}})
			return paged(c, tasks, bloom.Cursor{}), err
		})
}

func taskReply(t bloom.Task, err error) (*reply[bloom.Task], error) {
	return &reply[bloom.Task]{http.StatusOK, t}, err
}

func (s *Server) createTask(ctx context.Context, c *call, in *createInput) (*reply[bloom.Task], error) {
	sub := dispatch.Submission{Actor: c.caller.Name, Scope: c.caller.Scope(), RequestID: c.id}
	read := s.readTask
	if boundary := formBoundary(c.r); boundary != "" {
		read = func(c *call, key string, spec *bloom.TaskSpec) error { return s.readForm(ctx, c, boundary, key, &sub) }
	}
	if err := read(c, in.Key, &sub.Spec); err != nil {
		return nil, err
	}
	task, _, err := s.svc.Submit(ctx, sub)
	return &reply[bloom.Task]{http.StatusCreated, task}, err
}

// readTask reads a task, with the idempotency key of the header.
func (s *Server) readTask(c *call, key string, spec *bloom.TaskSpec) error {
	if err := s.decode(c, limitCreate, spec); err != nil {
		return err
	}
	switch {
	case key == "":
	case spec.IdempotencyKey == "":
		spec.IdempotencyKey = key
		return input.Check(*spec)
	case spec.IdempotencyKey != key:
		return bloom.Invalid("The Idempotency-Key header and the body name different keys",
			bloom.FieldError{Field: "idempotency_key", Message: "must be the header's, or absent"})
	}
	return nil
}

// dispatchBody names the worker that a task is for.
type dispatchBody struct {
	WorkerID *string `json:"worker_id,omitempty" required:"false" nullable:"true" maxLength:"128" doc:"The worker to lease the task to; absent: any"`
}

// dispatched is the response of dispatchTask.
type dispatched struct {
	Dispatched bool    `json:"dispatched" doc:"Always true; if no worker can run the task, the response is 503"`
	TaskID     string  `json:"task_id" format:"uuid"`
	WorkerID   *string `json:"worker_id" doc:"The worker that holds the task; null while it waits"`
	LeaseID    *string `json:"lease_id" doc:"Its lease; null while it waits"`
}

// dispatchTask is a compatibility route for clients of the earlier implementation, which
// pushed tasks to workers.
func (s *Server) dispatchTask(ctx context.Context, c *call, in *pathID) (*reply[dispatched], error) {
	var b dispatchBody
	if err := s.decode(c, limitBody, &b); err != nil {
		return nil, err
	}
	var worker string
	if b.WorkerID != nil {
		worker = *b.WorkerID
	}
	t, err := s.svc.Dispatch(ctx, contract.LeaseRequest{TaskID: in.ID, WorkerID: worker, Actor: c.caller.Name})
	return &reply[dispatched]{http.StatusOK, dispatched{true, t.ID, t.WorkerID, t.LeaseID}}, err
}

func (s *Server) listTasks(ctx context.Context, c *call, in *taskFilter) (*page[bloom.Task], error) {
	p, err := in.page()
	if err != nil {
		return nil, err
	}
	status := bloom.TaskStatus(in.Status)
	if err := checkFilter("status", status, bloom.TaskStatuses...); err != nil {
		return nil, err
	}
	q := numbers{}
	since, until := q.read("since", in.Since, 0, maxMillis), q.read("until", in.Until, 0, maxMillis)
	if err := q.err(); err != nil {
		return nil, err
	}
	tasks, next, err := s.lists.Tasks(ctx, bloom.TaskQuery{
		Status: status, ContextID: in.ContextID, AgentSlug: in.AgentSlug,
		WorkerID: in.WorkerID, Error: in.Error, Labels: in.Label, Since: since, Until: until, ShortID: in.ShortID, Text: in.Text, Page: in.whole(p),
	})
	return paged(c, tasks, next), err
}
