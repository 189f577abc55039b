package store

import (
	"context"
	"fmt"
	"slices"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/audit"
	"github.com/bloom-runtime/bloom/internal/storable"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

var errNoSchedule = bloom.NotFound("Schedule")

var schedules = table("schedules", "name text, spec text, created_at bigint, created_by text, next_at bigint, recent text", "",
	func(v []any, name string, s *bloom.Schedule) []any {
		return append(v, name, string(storable.MustJSON(s.ScheduleSpec)), s.CreatedAt, s.CreatedBy, s.NextAt, string(storable.MustJSON(s.Recent)))
	}, nil)

const scheduleColumns = `s.name, s.spec, s.created_at, s.created_by, s.next_at, s.recent`

func scheduleFields(s *bloom.Schedule) []any {
	return []any{&s.Name, &object{&s.ScheduleSpec}, &s.CreatedAt, &s.CreatedBy, &s.NextAt, &object{&s.Recent}}
}

func loadSchedules(l *Load, v *Values[string, *bloom.Schedule]) {
	pickRows(l, v, "s", scheduleColumns, scheduleFields, func(s *bloom.Schedule) string { return s.Name })
}

// SaveSchedule creates or replaces a schedule.
func (s *Store) SaveSchedule(ctx context.Context, n bloom.Schedule, actor string) (bloom.Schedule, error) {
	return do(ctx, s, func(r *Rows) { schedules.want(r, n.Name) }, func(u *Unit) (bloom.Schedule, error) {
		was, err := schedules.get(u, n.Name)
		if err != nil {
			return n, err
		}
		saved := n
		saved.CreatedAt, saved.CreatedBy, saved.Recent = u.Now, actor, []bloom.Occurrence{}
		if was != nil {
			saved.CreatedAt, saved.Recent = was.CreatedAt, was.Recent
		}
		schedules.put(u, n.Name, &saved)
		u.notify = append(u.notify, bloom.Change{Kind: contract.ChangeSchedules})
		u.audit(audit.ActionScheduleSaved, audit.EntitySchedule, n.Name, actor, "Saved the schedule "+n.Name, storable.MustJSON(saved.ScheduleSpec))
		return saved, nil
	})
}

// RemoveSchedule removes a schedule.
func (s *Store) RemoveSchedule(ctx context.Context, name, actor string) error {
	_, err := do(ctx, s, func(r *Rows) { schedules.want(r, name) }, func(u *Unit) (struct{}, error) {
		was, err := schedules.get(u, name)
		if err == nil && was == nil {
			err = errNoSchedule
		}
		if err != nil {
			return struct{}{}, err
		}
		schedules.put(u, name, nil)
		u.notify = append(u.notify, bloom.Change{Kind: contract.ChangeSchedules})
		u.audit(audit.ActionScheduleRemoved, audit.EntitySchedule, name, actor, "Removed the schedule "+name, nil)
		return struct{}{}, nil
	})
	return err
}

// StartScheduled records what becomes of a time of a schedule, and creates its task.
func (s *Store) StartScheduled(ctx context.Context, r contract.ScheduledStart) (*bloom.Task, error) {
	var key Key
	reads := func(rows *Rows) {
		schedules.want(rows, r.Schedule)
		if r.Task != nil {
			key = wantNew(rows, *r.Task)
		}
	}
	return do(ctx, s, reads, func(u *Unit) (*bloom.Task, error) {
		is, err := schedules.get(u, r.Schedule)
		switch {
		case err != nil:
			return nil, err
		case is == nil:
			return nil, errNoSchedule
		case r.At != 0 && (is.NextAt == nil || *is.NextAt != r.At): // another server was faster, or it was changed
			return nil, nil
		}
		recorded := slices.Clone(r.Occurrences)
		var task *bloom.Task
		if r.Task != nil {
			created, _, err := u.create(*r.Task, key)
			if err != nil {
				return nil, err
			}
			task, recorded[len(recorded)-1].TaskID = &created, &created.ID
		}
		for _, o := range recorded {
			action, detail := audit.ActionScheduleStarted, "Started a task by the schedule "+r.Schedule
			if o.TaskID == nil {
				action, detail = audit.ActionScheduleSkipped, fmt.Sprintf("Skipped %d starts of the schedule %s: %s", o.Count, r.Schedule, o.Skipped)
			}
			u.audit(action, audit.EntitySchedule, r.Schedule, r.Actor, detail, storable.MustJSON(o))
		}
		slices.Reverse(recorded)
		is.Recent = append(recorded, is.Recent...)
		is.Recent = is.Recent[:min(len(is.Recent), contract.MaxOccurrences)]
		if r.At != 0 {
			is.NextAt = r.Next
		}
		schedules.put(u, r.Schedule, is)
		u.notify = append(u.notify, bloom.Change{Kind: contract.ChangeSchedules})
		return task, nil
	})
}

// Schedules lists all schedules by name.
func (s *Store) Schedules(ctx context.Context) ([]bloom.Schedule, error) {
	return all(ctx, s, scheduleFields, `SELECT `+scheduleColumns+` FROM schedules s ORDER BY s.name`)
}

// Schedule returns one schedule.
func (s *Store) Schedule(ctx context.Context, name string) (bloom.Schedule, error) {
	return single(ctx, s, scheduleFields, errNoSchedule, `SELECT `+scheduleColumns+` FROM schedules s WHERE s.name = $1`, storable.Text(name))
}

// DueSchedules returns schedules that are due, and the next time of all others.
func (s *Store) DueSchedules(ctx context.Context, now int64) (due []bloom.Schedule, next int64, err error) {
	if due, err = all(ctx, s, scheduleFields, `SELECT `+scheduleColumns+` FROM schedules s WHERE s.next_at <= $1 ORDER BY s.next_at`, now); err != nil {
		return nil, 0, err
	}
	next, err = single(ctx, s, Self[int64], nil, `SELECT coalesce(min(next_at), 0) FROM schedules WHERE next_at > $1`, now)
	return due, next, err
}
