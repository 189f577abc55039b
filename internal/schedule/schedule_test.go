package schedule_test

import (
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/schedule"
)

func parse(t *testing.T, s bloom.ScheduleSpec) schedule.Times {
	t.Helper()
	times, err := schedule.Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return times
}

// Each occurrence counts once: where the clocks skip a time it counts right after the change, and
// where they repeat it, the first time. These are the rules of ISC cron (cron(8)).
func TestTimesWhenTheClocksChange(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ cron, zone, from, want, then string }{
		{"30 3 * * *", "Europe/Kyiv", "2027-03-28T00:00:00+02:00", "2027-03-28T04:00:00+03:00", "2027-03-29T03:30:00+03:00"},
		{"30 3 * * *", "Europe/Kyiv", "2027-10-31T00:00:00+03:00", "2027-10-31T03:30:00+03:00", "2027-11-01T03:30:00+02:00"},
		{"30 2 * * *", "America/New_York", "2027-03-14T00:00:00-05:00", "2027-03-14T03:00:00-04:00", "2027-03-15T02:30:00-04:00"},
		{"0 * * * *", "Europe/Kyiv", "2027-10-31T02:30:00+03:00", "2027-10-31T03:00:00+03:00", "2027-10-31T03:00:00+02:00"}, // every hour
		{"0 * * * *", "Europe/Kyiv", "2027-03-28T02:30:00+02:00", "2027-03-28T04:00:00+03:00", "2027-03-28T05:00:00+03:00"},
		{"0 3 13 * 5", "UTC", "2027-01-01T12:00:00Z", "2027-01-08T03:00:00Z", "2027-01-13T03:00:00Z"}, // Fridays, and the 13th
		{"@daily", "Asia/Kolkata", "2027-01-01T12:00:00Z", "2027-01-02T00:00:00+05:30", "2027-01-03T00:00:00+05:30"},
	} {
		s := parse(t, bloom.ScheduleSpec{Cron: c.cron, TimeZone: c.zone})
		from, err := time.Parse(time.RFC3339, c.from)
		if err != nil {
			t.Fatal(err)
		}
		first := s.After(from)
		if got, then := first.Format(time.RFC3339), s.After(first).Format(time.RFC3339); got != c.want || then != c.then {
			t.Errorf("%s in %s: %s and %s, want %s and %s", c.cron, c.zone, got, then, c.want, c.then)
		}
	}
}

func TestNoTimeIsLost(t *testing.T) {
	t.Parallel()
	next := time.Date(2027, 1, 1, 3, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		spec   bloom.ScheduleSpec
		late   time.Duration
		last   time.Duration // after next
		before int64
		then   time.Duration
	}{
		{bloom.ScheduleSpec{Cron: "0 * * * *", TimeZone: "UTC"}, 0, 0, 0, time.Hour},
		{bloom.ScheduleSpec{Cron: "0 * * * *", TimeZone: "UTC"}, 5*time.Hour + time.Minute, 5 * time.Hour, 5, 6 * time.Hour},
		{bloom.ScheduleSpec{EverySec: 90, TimeZone: "UTC"}, 10 * time.Minute, 9 * time.Minute, 6, 630 * time.Second},
	} {
		last, before, then := parse(t, c.spec).Due(next, next.Add(c.late))
		if last.Sub(next) != c.last || before != c.before || then.Sub(next) != c.then {
			t.Errorf("%+v, late by %s: last %s, %d before, then %s", c.spec, c.late, last.Sub(next), before, then.Sub(next))
		}
	}
}

func TestWhatIsNoSchedule(t *testing.T) {
	t.Parallel()
	for _, s := range []bloom.ScheduleSpec{
		{Cron: "0 3 * *", TimeZone: "UTC"}, {Cron: "61 * * * *", TimeZone: "UTC"}, {Cron: "@every 1s", TimeZone: "UTC"}, {Cron: "TZ=UTC 0 3 * * *", TimeZone: "UTC"},
		{Cron: "0 0 30 2 *", TimeZone: "UTC"}, {Cron: "0 3 * * *", TimeZone: "Mars/Olympus"}, {Cron: "0 3 * * *", TimeZone: "Local"}, {Cron: "@reboot", TimeZone: "UTC"},
	} {
		if _, err := schedule.Parse(s); bloom.KindOf(err) != bloom.KindInvalid {
			t.Errorf("%+v: %v", s, err)
		}
	}
}
