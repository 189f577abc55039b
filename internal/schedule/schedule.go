// Package schedule computes the times of schedules. It knows neither stores nor clocks.
package schedule

import (
	"strings"
	"time"
	_ "time/tzdata" // machines without time zones; the binary is static

	cron "github.com/netresearch/go-cron"

	"github.com/bloom-runtime/bloom"
)

// What a schedule does when the task that it started last has not ended.
const (
	OverlapSkip   = "skip"   // this time is skipped
	OverlapAllow  = "allow"  // another task starts
	OverlapCancel = "cancel" // the last one is cancelled, and another starts
)

// CatchUpNone means that a missed time starts nothing; by default the last one does.
const CatchUpNone = "none"

// Reasons why an occurrence started nothing.
const (
	SkippedMissed  = "missed"     // no server ran at the time
	SkippedOverlap = "overlap"    // the last task had not ended
	SkippedFull    = "queue_full" // too many tasks were waiting
)

// MaxSchedules is how many schedules an installation may have.
const MaxSchedules = 200

// parser reads five fields as cron does: with both a day of the month and a day of the week, either
// of them is enough.
var parser = cron.MustNewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.DowOrDom | cron.Descriptor)

// Times are the times of a schedule.
type Times struct {
	zone  *time.Location
	cron  cron.Schedule
	often bool // in the course of an hour or a day
	every time.Duration
}

// Parse reads when a schedule starts.
func Parse(s bloom.ScheduleSpec) (Times, error) {
	zone, err := time.LoadLocation(s.TimeZone)
	if err != nil || s.TimeZone == "Local" {
		return Times{}, bloom.Invalid("The time zone is unknown", bloom.FieldError{Field: "time_zone", Message: "must be a name as Europe/Kyiv"})
	}
	if s.EverySec > 0 {
		return Times{zone: zone, every: time.Duration(s.EverySec) * time.Second}, nil
	}
	times, err := parser.Parse(s.Cron)
	if _, delay := times.(cron.ConstantDelaySchedule); err != nil || delay || strings.Contains(s.Cron, "=") {
		return Times{}, bloom.Invalid("The cron expression is invalid", bloom.FieldError{Field: "cron",
			Message: "must be minute, hour, day of the month, month and day of the week, as 0 3 * * 1-5"})
	}
	minute, hours, _ := strings.Cut(s.Cron, " ")
	t := Times{zone: zone, cron: times, often: strings.HasPrefix(minute, "*") || strings.HasPrefix(hours, "*") || s.Cron == "@hourly"}
	if t.After(time.Now()).IsZero() {
		return Times{}, bloom.Invalid("The cron expression never comes true", bloom.FieldError{Field: "cron", Message: "must come true within five years"})
	}
	return t, nil
}

// After returns the first time after t; zero: there is none. Where the clocks change it follows
// cron(8): a time that they skip comes right after the change; one that they repeat comes once,
// unless it comes every hour anyway.
func (s Times) After(t time.Time) time.Time {
	if s.every > 0 {
		return t.Add(s.every)
	}
	next := s.cron.Next(t.In(s.zone))
	for !next.IsZero() {
		changed, _ := next.ZoneBounds()
		since := next.Sub(changed)
		_, is := next.Zone()
		_, was := changed.Add(-1).In(s.zone).Zone()
		back := time.Duration(was-is) * time.Second // how far the clocks went back
		switch {
		case !changed.IsZero() && back < 0 && since < -back && !s.at(next) && changed.After(t):
			return changed
		case !changed.IsZero() && back > 0 && since < back && !s.often:
			next = s.cron.Next(next)
		default:
			return next
		}
	}
	return next
}

// at reports whether cron names what the clocks show.
func (s Times) at(t time.Time) bool {
	shown := time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), 0, 0, time.UTC)
	return s.cron.Next(shown.Add(-time.Second)).Equal(shown)
}

// Due returns what is due by now, from the next time on: the last of those times, how many come
// before it, and the next one after now. Next must not be after now.
func (s Times) Due(next, now time.Time) (last time.Time, before int64, following time.Time) {
	if s.every > 0 {
		before = int64(now.Sub(next) / s.every)
		last = next.Add(time.Duration(before) * s.every)
		return last, before, last.Add(s.every)
	}
	last = next
	for following = s.After(last); !following.IsZero() && !following.After(now); following = s.After(last) {
		last = following
		before++
	}
	return last, before, following
}

// Upcoming returns the next n times in Unix milliseconds, beginning with next.
func (s Times) Upcoming(next time.Time, n int) []int64 {
	all := []int64{}
	for ; len(all) < n && !next.IsZero(); next = s.After(next) {
		all = append(all, next.UnixMilli())
	}
	return all
}

// Task returns the task of a schedule at a time.
func (s Times) Task(of bloom.Schedule, at time.Time) bloom.TaskSpec {
	task := of.Task
	fill := strings.NewReplacer("{{.ScheduledAt}}", at.In(s.zone).Format(time.RFC3339), "{{.Schedule}}", of.Name)
	task.Prompt, task.ContextID = fill.Replace(task.Prompt), fill.Replace(task.ContextID)
	return task
}
