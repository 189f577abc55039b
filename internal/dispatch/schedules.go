package dispatch

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/input"
	"github.com/bloom-runtime/bloom/internal/schedule"
	"github.com/bloom-runtime/bloom/internal/storable"
	"github.com/bloom-runtime/bloom/internal/store/contract"
	"github.com/bloom-runtime/bloom/internal/timing"
)

const (
	// catchUpWindow is how late a missed time may still start a task.
	catchUpWindow = time.Hour
	// schedulePoll is how often schedules are read without a hint, and after a failure.
	schedulePoll    = 30 * time.Second
	maxScheduleName = 64
	upcomingTimes   = 5
)

// Schedules lists all schedules by name.
func (s *Service) Schedules(ctx context.Context) ([]bloom.Schedule, error) {
	list, err := s.store.Schedules(ctx)
	for i := range list {
		list[i] = withUpcoming(list[i])
	}
	return list, err
}

// Schedule returns one schedule.
func (s *Service) Schedule(ctx context.Context, name string) (bloom.Schedule, error) {
	is, err := s.store.Schedule(ctx, name)
	return withUpcoming(is), err
}

func withUpcoming(s bloom.Schedule) bloom.Schedule {
	s.Upcoming = []int64{}
	if times, err := schedule.Parse(s.ScheduleSpec); err == nil && s.NextAt != nil {
		s.Upcoming = times.Upcoming(time.UnixMilli(*s.NextAt), upcomingTimes)
	}
	return s
}

// SaveSchedule creates or replaces a schedule. Its next time is the first after now, or, if it is to
// start at an interval, an interval from now.
func (s *Service) SaveSchedule(ctx context.Context, name string, spec bloom.ScheduleSpec, actor string) (bloom.Schedule, error) {
	if n := utf8.RuneCountInString(name); n == 0 || n > maxScheduleName || name != storable.Text(name) || strings.TrimSpace(name) != name {
		return bloom.Schedule{}, bloom.Invalid("The schedule's name is invalid", bloom.FieldError{Field: "name", Message: "must be 1 to 64 characters of text"})
	}
	input.Normalize(&spec)
	times, err := schedule.Parse(spec)
	if err != nil {
		return bloom.Schedule{}, err
	}
	known, err := s.store.Schedules(ctx)
	if err != nil {
		return bloom.Schedule{}, err
	}
	if len(known) >= schedule.MaxSchedules && !slices.ContainsFunc(known, func(is bloom.Schedule) bool { return is.Name == name }) {
		return bloom.Schedule{}, bloom.Conflict("There are %d schedules, which is the limit; remove one first", len(known))
	}
	n := bloom.Schedule{Name: name, ScheduleSpec: spec}
	if !spec.Paused {
		n.NextAt = millis(times.After(s.clock.Now()))
	}
	saved, err := s.store.SaveSchedule(ctx, n, actor)
	return withUpcoming(saved), err
}

// PauseSchedule pauses or resumes a schedule. What it has missed while it was paused is not made up
// for.
func (s *Service) PauseSchedule(ctx context.Context, name string, paused bool, actor string) (bloom.Schedule, error) {
	is, err := s.store.Schedule(ctx, name)
	if err != nil || is.Paused == paused {
		return withUpcoming(is), err
	}
	is.Paused = paused
	return s.SaveSchedule(ctx, name, is.ScheduleSpec, actor)
}

// RemoveSchedule removes a schedule. Its tasks stay.
func (s *Service) RemoveSchedule(ctx context.Context, name, actor string) error {
	return s.store.RemoveSchedule(ctx, name, actor)
}

// RunSchedule starts a schedule's task now, whatever else runs.
func (s *Service) RunSchedule(ctx context.Context, name, actor string) (bloom.Task, error) {
	is, err := s.store.Schedule(ctx, name)
	if err != nil {
		return bloom.Task{}, err
	}
	times, err := schedule.Parse(is.ScheduleSpec)
	if err != nil {
		return bloom.Task{}, err
	}
	now := s.clock.Now()
	task, err := s.startScheduled(ctx, contract.ScheduledStart{Schedule: name, Actor: actor, Occurrences: []bloom.Occurrence{{At: timing.Millis(now), Count: 1, Manual: true}}}, is, times, now)
	if err != nil || task == nil {
		return bloom.Task{}, err
	}
	return *task, nil
}

// millis returns a time in Unix milliseconds, nil for no time.
func millis(t time.Time) *int64 {
	if t.IsZero() {
		return nil
	}
	return new(timing.Millis(t))
}

// startScheduled starts the task of a schedule in its transaction.
func (s *Service) startScheduled(ctx context.Context, r contract.ScheduledStart, is bloom.Schedule, times schedule.Times, at time.Time) (*bloom.Task, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return nil, bloom.Internal(err)
	}
	spec := times.Task(is, at)
	r.Task = &contract.NewTask{ID: id.String(), Spec: spec, BodyHash: specHash(spec, nil), Actor: r.Actor}
	if r.At != 0 { // unique, whatever happens to the schedule
		r.Task.IdempotencyScope, r.Task.Spec.IdempotencyKey = "schedule "+is.Name, strconv.FormatInt(timing.Millis(at), 10)
	}
	leave, full, err := s.full.enter(ctx, r.Actor)
	if err != nil {
		return nil, err
	}
	added := unknown
	defer func() { leave(added) }()
	if full != nil {
		added = nothing
		return nil, full
	}
	task, err := s.store.StartScheduled(ctx, r)
	switch {
	case task != nil:
		added = created
	case err == nil || !outcomeUnknown(err):
		added = nothing
	}
	return task, err
}

// runSchedules starts what is due until the service closes. Any number of servers may do so: the
// store lets one of them have each time.
func (s *Service) runSchedules(changed <-chan struct{}) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		select {
		case <-s.closing:
			cancel()
		case <-ctx.Done():
		}
	}()
	for {
		wait := s.startDue(ctx)
		select {
		case <-s.closing:
			return
		case <-changed:
		case <-time.After(wait):
		}
	}
}

// startDue starts what is due, and returns how long to wait for the next time.
func (s *Service) startDue(ctx context.Context) time.Duration {
	now := s.clock.Now()
	due, next, err := s.store.DueSchedules(ctx, timing.Millis(now))
	if err != nil {
		if ctx.Err() == nil {
			s.log.ErrorContext(ctx, "schedules could not be read", "error", err)
		}
		return schedulePoll
	}
	wait := schedulePoll
	if next != 0 {
		wait = min(wait, time.UnixMilli(next).Sub(now))
	}
	failed := false
	for _, is := range due {
		if err := s.startOne(ctx, is, now); err != nil && ctx.Err() == nil {
			failed = true
			s.log.ErrorContext(ctx, "a schedule could not be started; it is tried again", "schedule", is.Name, "error", err)
		}
	}
	if len(due) > 0 && !failed {
		return 0 // they have other times now
	}
	return wait
}

// startOne starts the last time of a schedule that is due, unless it is too late or the task before
// has not ended. The times before it were missed.
func (s *Service) startOne(ctx context.Context, is bloom.Schedule, now time.Time) error {
	times, err := schedule.Parse(is.ScheduleSpec)
	if err != nil {
		return err
	}
	last, before, following := times.Due(time.UnixMilli(*is.NextAt), now)
	r := contract.ScheduledStart{Schedule: is.Name, At: *is.NextAt, Next: millis(following), Actor: is.CreatedBy}
	occurrence := bloom.Occurrence{At: timing.Millis(last), Count: 1}
	latest := catchUpWindow
	if is.CatchUp == schedule.CatchUpNone {
		latest = time.Minute
	}
	if now.Sub(last) > latest {
		occurrence = bloom.Occurrence{At: *is.NextAt, Count: before + 1, Skipped: schedule.SkippedMissed}
	} else if before > 0 {
		r.Occurrences = append(r.Occurrences, bloom.Occurrence{At: *is.NextAt, Count: before, Skipped: schedule.SkippedMissed})
	}
	if occurrence.Skipped == "" && is.Overlap != schedule.OverlapAllow {
		ended, err := s.lastEnded(ctx, is)
		switch {
		case err != nil:
			return err
		case !ended:
			occurrence.Skipped = schedule.SkippedOverlap
		}
	}
	r.Occurrences = append(r.Occurrences, occurrence)
	if occurrence.Skipped == "" {
		_, err = s.startScheduled(ctx, r, is, times, last)
		if !errors.Is(err, bloom.ErrQueueFull) {
			return err
		}
		r.Occurrences[len(r.Occurrences)-1].Skipped = schedule.SkippedFull
	}
	_, err = s.store.StartScheduled(ctx, r)
	return err
}

// lastEnded reports whether the last task of a schedule has ended. With OverlapCancel it is cancelled.
func (s *Service) lastEnded(ctx context.Context, is bloom.Schedule) (bool, error) {
	i := slices.IndexFunc(is.Recent, func(o bloom.Occurrence) bool { return o.TaskID != nil })
	if i < 0 {
		return true, nil
	}
	task, err := s.store.Task(ctx, *is.Recent[i].TaskID)
	switch {
	case bloom.KindOf(err) == bloom.KindNotFound: // removed in the meantime
		return true, nil
	case err != nil || task.Status.Terminal() || is.Overlap != schedule.OverlapCancel:
		return err == nil && task.Status.Terminal(), err
	}
	if _, err = s.store.Cancel(ctx, task.ID, is.CreatedBy); bloom.KindOf(err) == bloom.KindConflict {
		err = nil // it has ended
	}
	return true, err
}
