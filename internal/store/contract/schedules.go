package contract

import (
	"context"

	"github.com/bloom-runtime/bloom"
)

// ChangeSchedules is the kind of changes of schedules.
const ChangeSchedules = "schedules"

// MaxOccurrences is how many of the last occurrences are kept with a schedule; the audit log has all.
const MaxOccurrences = 50

// ScheduledStart is what becomes of a time of a schedule.
type ScheduledStart struct {
	Schedule string
	// At is the schedule's next time, which this takes; 0: it is started by hand.
	At int64
	// Next is the time that follows, nil if there is none; without At it stays.
	Next *int64
	// Occurrences are recorded, the oldest first. The last one gets the task's id.
	Occurrences []bloom.Occurrence
	Task        *NewTask // nil: nothing is started
	Actor       string
}

// ScheduleStore keeps schedules. Changes are published as ChangeSchedules.
type ScheduleStore interface {
	// SaveSchedule creates or replaces a schedule. The caller sets all but the fields of its history.
	SaveSchedule(ctx context.Context, s bloom.Schedule, actor string) (bloom.Schedule, error)
	// RemoveSchedule removes a schedule; NotFound("Schedule").
	RemoveSchedule(ctx context.Context, name, actor string) error
	// Schedules lists all schedules by name.
	Schedules(ctx context.Context) ([]bloom.Schedule, error)
	// Schedule returns one schedule; NotFound("Schedule").
	Schedule(ctx context.Context, name string) (bloom.Schedule, error)
	// DueSchedules returns schedules whose next time is not after now, in Unix milliseconds, and the
	// next time of all others; 0: there is none.
	DueSchedules(ctx context.Context, now int64) (due []bloom.Schedule, next int64, err error)
	// StartScheduled records what becomes of a time of a schedule, and creates its task, in one
	// transaction. It does nothing if the schedule's next time is no longer r.At.
	StartScheduled(ctx context.Context, r ScheduledStart) (task *bloom.Task, err error)
}
