package client

import (
	"context"
	"net/http"

	"github.com/bloom-runtime/bloom"
)

// Schedules returns all schedules by name.
func (c *Client) Schedules(ctx context.Context) ([]bloom.Schedule, error) {
	var out []bloom.Schedule
	_, err := c.do(ctx, &call{method: http.MethodGet, path: "/schedules", safety: safe}, &out)
	return out, err
}

// Schedule returns one schedule.
func (c *Client) Schedule(ctx context.Context, name string) (bloom.Schedule, error) {
	return c.schedule(ctx, http.MethodGet, name, "", nil)
}

// SaveSchedule creates a schedule, or replaces the one of that name.
func (c *Client) SaveSchedule(ctx context.Context, name string, spec bloom.ScheduleSpec) (bloom.Schedule, error) {
	return c.schedule(ctx, http.MethodPut, name, "", spec)
}

// PauseSchedule pauses a schedule: nothing starts until it is resumed.
func (c *Client) PauseSchedule(ctx context.Context, name string) (bloom.Schedule, error) {
	return c.schedule(ctx, http.MethodPost, name, "/pause", nil)
}

// ResumeSchedule resumes a schedule. What it missed while it was paused is not made up for.
func (c *Client) ResumeSchedule(ctx context.Context, name string) (bloom.Schedule, error) {
	return c.schedule(ctx, http.MethodPost, name, "/resume", nil)
}

// RemoveSchedule removes a schedule; its tasks stay.
func (c *Client) RemoveSchedule(ctx context.Context, name string) error {
	return c.remove(ctx, "/schedules/"+seg(name))
}

// RunSchedule starts a schedule's task now. The call is not retried when its answer is lost: the
// task might start twice.
func (c *Client) RunSchedule(ctx context.Context, name string) (bloom.Task, error) {
	task, _, err := post[bloom.Task](ctx, c, "/schedules/"+seg(name)+"/run", struct{}{}, unsafe)
	return task, err
}

func (c *Client) schedule(ctx context.Context, method, name, action string, body any) (out bloom.Schedule, err error) {
	call := &call{method: method, path: "/schedules/" + seg(name) + action, safety: safe}
	if body != nil {
		if call.body, err = encode(body); err != nil {
			return out, err
		}
	}
	_, err = c.do(ctx, call, &out)
	return out, err
}
