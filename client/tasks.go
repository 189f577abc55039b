package client

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"iter"
	"mime/multipart"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/bloom-runtime/bloom"
)

// Submit queues a task. Zero fields of spec get their defaults. The call is retried without
// creating a second task: unless spec has an IdempotencyKey, each call uses a new one.
//
// With an IdempotencyKey that was used before, Submit returns the first task as it is now, or
// bloom.ErrIdempotency when that task had another body.
func (c *Client) Submit(ctx context.Context, spec bloom.TaskSpec) (bloom.Task, error) {
	return c.SubmitWith(ctx, spec)
}

// Attach is a file to post with a task, without holding it in memory. Name has no folder.
type Attach struct {
	Name    string
	Content io.ReaderAt
	Size    int64
}

// SubmitWith is Submit for a task with files, which its worker puts into the folder
// attachments of its working folder. The whole request is one: either the task with all of
// its files exists, or nothing. An error of kind KindTooLarge means that the server does not accept
// files of this size.
func (c *Client) SubmitWith(ctx context.Context, spec bloom.TaskSpec, files ...Attach) (bloom.Task, error) {
	raw, err := encode(withDefaults(spec))
	if err != nil {
		return bloom.Task{}, err
	}
	call := &call{method: http.MethodPost, path: "/llm-tasks", body: raw, safety: safe}
	if spec.IdempotencyKey == "" && c.retry.Tries > 1 {
		call.header = map[string]string{"Idempotency-Key": freshKey()}
	} else if spec.IdempotencyKey == "" {
		call.safety = unsafe
	}
	if len(files) > 0 {
		call.form(raw, files)
	}
	var task bloom.Task
	_, err = c.do(ctx, call, &task)
	return task, err
}

// form makes the body a form with the task and its files.
func (c *call) form(task []byte, files []Attach) {
	var parts []func() io.Reader
	var head bytes.Buffer
	w := multipart.NewWriter(&head)
	add := func(r io.ReaderAt, size int64) {
		parts, c.size = append(parts, func() io.Reader { return io.NewSectionReader(r, 0, size) }), c.size+size
	}
	flush := func() {
		add(bytes.NewReader(bytes.Clone(head.Bytes())), int64(head.Len()))
		head.Reset()
	}
	_ = w.WriteField("task", string(task)) // a buffer takes everything
	for _, f := range files {
		_, _ = w.CreateFormFile("file", f.Name)
		flush()
		add(f.Content, f.Size)
	}
	_ = w.Close()
	flush()
	c.body, c.contentType, c.extra = nil, w.FormDataContentType(), time.Duration(c.size>>15)*time.Second
	c.content = func() io.Reader {
		readers := make([]io.Reader, len(parts))
		for i, open := range parts {
			readers[i] = open()
		}
		return io.MultiReader(readers...)
	}
	if c.size > largeFile {
		if c.header == nil {
			c.header = map[string]string{}
		}
		c.header["Expect"] = "100-continue"
	}
}

// freshKey returns a unique key. It starts with the time, so that the store's index of keys grows
// at its end.
func freshKey() string {
	return strconv.FormatInt(time.Now().UnixMilli(), 36) + "-" + rand.Text()
}

// withDefaults fills the defaults whose zero value would be encoded as another value.
func withDefaults(s bloom.TaskSpec) bloom.TaskSpec {
	s.Policy.TimeoutSec = cmp.Or(s.Policy.TimeoutSec, bloom.DefaultTimeoutSec)
	s.DesiredFormat = cmp.Or(s.DesiredFormat, bloom.FormatText)
	s.MaxAttempts = cmp.Or(s.MaxAttempts, bloom.DefaultMaxAttempts)
	s.ContextHints = orEmpty(s.ContextHints)
	s.Labels = orEmpty(s.Labels)
	return s
}

func orEmpty[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

// Task returns one task, or bloom.ErrTaskNotFound.
func (c *Client) Task(ctx context.Context, id string) (bloom.Task, error) {
	return get[bloom.Task](ctx, c, "/llm-tasks/"+seg(id))
}

// Tasks returns one page of tasks, newest first, and the cursor of the next page.
func (c *Client) Tasks(ctx context.Context, q bloom.TaskQuery) ([]bloom.Task, bloom.Cursor, error) {
	v := newQuery(q.Page).with("status", string(q.Status)).with("context_id", q.ContextID).
		with("agent_slug", q.AgentSlug).with("worker_id", q.WorkerID).with("error_class", q.Error).with("short_id", q.ShortID).with("q", q.Text)
	for name, at := range map[string]int64{"since": q.Since, "until": q.Until} {
		if at != 0 {
			v.Set(name, strconv.FormatInt(at, 10))
		}
	}
	for _, l := range q.Labels {
		v.Add("label", l)
	}
	return list[bloom.Task](ctx, c, v.on("/llm-tasks"))
}

// AllTasks iterates over the tasks from q's page on.
func (c *Client) AllTasks(ctx context.Context, q bloom.TaskQuery) iter.Seq2[bloom.Task, error] {
	return every(q.Page, func(p bloom.Page) ([]bloom.Task, bloom.Cursor, error) {
		q.Page = p
		return c.Tasks(ctx, q)
	})
}

// Runs returns the last 50 tasks.
func (c *Client) Runs(ctx context.Context) ([]bloom.Task, error) {
	return get[[]bloom.Task](ctx, c, "/runs")
}

// Cancel cancels a task: a waiting one immediately, a running one by asking its worker to stop.
// Conflict when it has already ended.
func (c *Client) Cancel(ctx context.Context, id string) (bloom.Task, error) {
	task, meta, err := post[bloom.Task](ctx, c, "/llm-tasks/"+seg(id)+"/cancel", struct{}{}, safe)
	if err != nil && meta.repeated && bloom.KindOf(err) == bloom.KindConflict {
		// An earlier try, whose answer was lost, may have cancelled it.
		if now, readErr := c.Task(ctx, id); readErr == nil && now.Status == bloom.TaskCancelled {
			return now, nil
		}
	}
	return task, err
}

// Requeue requeues a failed, dead or cancelled task.
func (c *Client) Requeue(ctx context.Context, id string) (bloom.Task, error) {
	task, _, err := post[bloom.Task](ctx, c, "/llm-tasks/"+seg(id)+"/requeue", struct{}{}, unsafe)
	return task, err
}

// CancelAll cancels up to bloom.MaxBulkTasks tasks and returns the outcome for each. The call is
// not retried when its response is lost.
func (c *Client) CancelAll(ctx context.Context, ids []string) ([]bloom.TaskOutcome, error) {
	return c.bulk(ctx, "cancel", ids)
}

// RequeueAll requeues up to bloom.MaxBulkTasks tasks and returns the outcome for each. The call is
// not retried when its response is lost.
func (c *Client) RequeueAll(ctx context.Context, ids []string) ([]bloom.TaskOutcome, error) {
	return c.bulk(ctx, "requeue", ids)
}

func (c *Client) bulk(ctx context.Context, op string, ids []string) ([]bloom.TaskOutcome, error) {
	out, _, err := post[bloom.TaskOutcomes](ctx, c, "/llm-tasks/"+op, bloom.TaskIDs{IDs: ids}, unsafe)
	return out.Results, err
}

// CancelMatching cancels all unfinished tasks that match, newest first, in batches, and returns the
// counts; with DryRun it only counts. On an error it returns the counts so far. A batch is not
// retried when its response is lost.
func (c *Client) CancelMatching(ctx context.Context, m bloom.TasksMatching) (bloom.TasksMatched, error) {
	return c.matching(ctx, "cancel", m)
}

// RequeueMatching requeues all failed, dead and cancelled tasks that match, in the manner of
// CancelMatching.
func (c *Client) RequeueMatching(ctx context.Context, m bloom.TasksMatching) (bloom.TasksMatched, error) {
	return c.matching(ctx, "requeue", m)
}

func (c *Client) matching(ctx context.Context, op string, m bloom.TasksMatching) (sum bloom.TasksMatched, err error) {
	safety := unsafe
	if m.DryRun {
		safety = safe
	}
	for {
		out, _, err := post[bloom.TasksMatched](ctx, c, "/llm-tasks/"+op+"-matching", m, safety)
		if err != nil {
			return sum, err
		}
		sum.Matched, sum.Changed, sum.Next = sum.Matched+out.Matched, sum.Changed+out.Changed, out.Next
		if out.Next == "" || m.DryRun {
			return sum, nil
		}
		m.Next = out.Next
	}
}

// Results returns a task's results, newest first.
func (c *Client) Results(ctx context.Context, id string) ([]bloom.Result, error) {
	return get[[]bloom.Result](ctx, c, "/llm-tasks/"+seg(id)+"/results")
}

// Await waits until a task has ended and returns it. It follows the task's stream, across outages
// of the server.
func (c *Client) Await(ctx context.Context, id string) (bloom.Task, error) {
	for {
		for _, err := range c.FollowEvents(ctx, id, FollowOptions{}) {
			if err != nil {
				return bloom.Task{}, err
			}
		}
		if task, ended, err := c.ended(ctx, id); err != nil || ended {
			return task, err
		}
	}
}

// ended reads a task whose stream has ended, across outages of the server. ended is false when the
// task was requeued since: its stream continues.
func (c *Client) ended(ctx context.Context, id string) (task bloom.Task, ended bool, err error) {
	for n := 0; ; n++ {
		task, err = c.Task(ctx, id)
		if err == nil && task.Status.Terminal() || err != nil && !Temporary(err) {
			return task, true, err
		}
		if waited := pause(ctx, c.retry.Wait(n, err)); waited != nil {
			return task, false, waited
		}
		if err == nil {
			return task, false, nil
		}
	}
}

// TaskOutput returns a task's newest result with its whole, verified output, wherever it is stored.
func (c *Client) TaskOutput(ctx context.Context, id string) (bloom.Result, []byte, error) {
	results, err := c.Results(ctx, id)
	if err != nil {
		return bloom.Result{}, nil, err
	}
	if len(results) == 0 {
		return bloom.Result{}, nil, &APIError{Status: http.StatusNotFound, Err: bloom.NotFound("Result")}
	}
	newest := results[0]
	if newest.Output != nil {
		return newest, []byte(*newest.Output), nil
	}
	content, err := c.ArtifactBytes(ctx, newest.ArtifactID)
	if errors.Is(err, bloom.NotFound("Artifact")) && newest.Status == bloom.OutcomeError {
		return newest, nil, nil // a failed attempt may have no output
	}
	return newest, slices.Clip(content), err
}

// Filters lists the saved task filters by name.
func (c *Client) Filters(ctx context.Context) ([]bloom.TaskFilter, error) {
	return get[[]bloom.TaskFilter](ctx, c, "/filters")
}

// SaveFilter saves a filter and replaces one with the same name.
func (c *Client) SaveFilter(ctx context.Context, f bloom.TaskFilter) (bloom.TaskFilter, error) {
	raw, err := encode(f)
	if err != nil {
		return f, err
	}
	var out bloom.TaskFilter
	_, err = c.do(ctx, &call{method: http.MethodPut, path: "/filters/" + seg(f.Name), body: raw, safety: safe}, &out)
	return out, err
}

// RemoveFilter removes a saved filter.
func (c *Client) RemoveFilter(ctx context.Context, name string) error {
	return c.remove(ctx, "/filters/"+seg(name))
}
