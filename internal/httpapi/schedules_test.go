package httpapi_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/auth"
	"github.com/bloom-runtime/bloom/internal/dispatch"
	"github.com/bloom-runtime/bloom/internal/httpapi"
	"github.com/bloom-runtime/bloom/internal/schedule"
	"github.com/bloom-runtime/bloom/internal/storable"
)

// scheduled waits until a schedule has so many occurrences, after its clock has moved on.
func (r *fixture) scheduled(name string, later time.Duration, want int) bloom.Schedule {
	r.t.Helper()
	r.clock.by.Add(int64(later))
	for deadline := time.Now().Add(3 * time.Minute); ; {
		r.call(200, nil, "PUT", "/schedules/wakes%20the%20server", `{"paused":true,"every_sec":60,"task":{"context_id":"c","agent_slug":"a","prompt":"p"}}`)
		var is bloom.Schedule
		if r.call(200, &is, "GET", "/schedules/"+name, ""); len(is.Recent) == want {
			return is
		}
		if time.Now().After(deadline) {
			r.t.Fatalf("%+v, want %d occurrences", is, want)
		}
	}
}

func TestASchedulesTimesAreAccountedFor(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	var is bloom.Schedule
	r.call(200, &is, "PUT", "/schedules/hourly", `{"cron":"0 * * * *","time_zone":"Asia/Kolkata","task":{"context_id":"{{.Schedule}} {{.ScheduledAt}}","agent_slug":"a","prompt":"since {{.ScheduledAt}}"}}`)
	if is.NextAt == nil || len(is.Upcoming) != 5 || is.Upcoming[0] != *is.NextAt || is.Upcoming[1]-is.Upcoming[0] != 3_600_000 || is.Overlap != schedule.OverlapSkip || is.CatchUp != "one" {
		t.Fatalf("%+v", is)
	}
	next := func() int64 { return *is.NextAt }
	first := next()
	is = r.scheduled("hourly", time.Hour, 1)
	var task bloom.Task
	r.call(200, &task, "GET", "/llm-tasks/"+*is.Recent[0].TaskID, "")
	zone, err := time.LoadLocation("Asia/Kolkata")
	must(t, err)
	at := time.UnixMilli(first).In(zone).Format(time.RFC3339)
	if is.Recent[0].At != first || task.Prompt != "since "+at || task.ContextID != "hourly "+at || next() != first+3_600_000 {
		t.Errorf("%+v started %+v", is, task)
	}
	is = r.scheduled("hourly", time.Hour, 2)
	if o := is.Recent[0]; o.Skipped != schedule.SkippedOverlap || o.TaskID != nil {
		t.Errorf("while the last task waits: %+v", o)
	}
	r.call(200, nil, "POST", "/llm-tasks/"+task.ID+"/cancel", "")
	is = r.scheduled("hourly", 5*time.Hour, 4) // the server was down
	if missed, started := is.Recent[1], is.Recent[0]; missed.Skipped != schedule.SkippedMissed || missed.Count != 4 || started.TaskID == nil || started.At != first+6*3_600_000 {
		t.Errorf("after an outage: %+v", is.Recent)
	}
	r.call(200, nil, "POST", "/schedules/hourly/pause", "")
	r.call(200, &is, "GET", "/schedules/hourly", "")
	if is.NextAt != nil || len(is.Upcoming) != 0 {
		t.Errorf("paused: %+v", is)
	}
	r.call(201, &task, "POST", "/schedules/hourly/run", "")
	r.call(200, &is, "GET", "/schedules/hourly", "")
	if o := is.Recent[0]; !o.Manual || *o.TaskID != task.ID || is.NextAt != nil {
		t.Errorf("started by hand: %+v", is)
	}
	r.call(200, &is, "POST", "/schedules/hourly/resume", "")
	if is.NextAt == nil || next() <= r.clock.Now().UnixMilli() {
		t.Errorf("resumed: %+v", is)
	}
	r.call(200, nil, "DELETE", "/schedules/hourly", "")
	r.fails(404, bloom.CodeNotFound, "GET", "/schedules/hourly", "")
}

func TestWhatASchedulesOptionsDo(t *testing.T) {
	t.Parallel()
	r := newFixture(t, func(d *dispatch.Config, _ *auth.Config, _ *httpapi.Config) { d.MaxQueued = 2 })
	save := func(name, options string) {
		r.call(200, nil, "PUT", "/schedules/"+name, `{"every_sec":7200,"task":{"context_id":"c","agent_slug":"a","prompt":"p"}`+options+`}`)
	}
	save("allow", `,"overlap":"allow"`)
	r.scheduled("allow", 2*time.Hour, 1)
	is := r.scheduled("allow", 2*time.Hour, 2)
	if is.Recent[0].TaskID == nil || is.Recent[1].TaskID == nil {
		t.Errorf("with overlap: %+v", is.Recent)
	}
	if is = r.scheduled("allow", 2*time.Hour, 3); is.Recent[0].Skipped != schedule.SkippedFull {
		t.Errorf("with a full queue: %+v", is.Recent[0])
	}
	for _, o := range is.Recent[1:] {
		r.call(200, nil, "POST", "/llm-tasks/"+*o.TaskID+"/cancel", "")
	}
	r.call(200, nil, "DELETE", "/schedules/allow", "")
	r.clock.by.Add(int64(time.Minute)) // the count of the queue is cached
	save("cancel", `,"overlap":"cancel"`)
	first := r.scheduled("cancel", 2*time.Hour, 1).Recent[0].TaskID
	if is = r.scheduled("cancel", 2*time.Hour, 2); is.Recent[0].TaskID == nil {
		t.Errorf("with cancel: %+v", is.Recent)
	}
	var task bloom.Task
	if r.call(200, &task, "GET", "/llm-tasks/"+*first, ""); task.Status != bloom.TaskCancelled {
		t.Errorf("the last task is %s", task.Status)
	}
	save("none", `,"catch_up":"none"`)
	if is = r.scheduled("none", 2*time.Hour+10*time.Minute, 1); is.Recent[0].Skipped != schedule.SkippedMissed {
		t.Errorf("without catching up: %+v", is.Recent)
	}
	save("late", "")
	if is = r.scheduled("late", 2*time.Hour+61*time.Minute, 1); is.Recent[0].Skipped != schedule.SkippedMissed {
		t.Errorf("more than an hour late: %+v", is.Recent)
	}
}

func TestSchedulesAreChecked(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	task := `"task":{"context_id":"c","agent_slug":"a","prompt":"p"}`
	for body, field := range map[string]string{
		`{` + task + `}`: "cron",
		`{"cron":"0 3 * * *","every_sec":60,` + task + `}`:                                                        "cron",
		`{"cron":"0 3 * *",` + task + `}`:                                                                         "cron",
		`{"cron":"@every 1s",` + task + `}`:                                                                       "cron",
		`{"every_sec":59,` + task + `}`:                                                                           "every_sec",
		`{"cron":"0 3 * * *","time_zone":"Nowhere",` + task + `}`:                                                 "time_zone",
		`{"cron":"0 3 * * *","overlap":"maybe",` + task + `}`:                                                     "overlap",
		`{"cron":"0 3 * * *","task":{"context_id":"c","agent_slug":"a","prompt":""}}`:                             "task.prompt",
		`{"cron":"0 3 * * *","task":{"context_id":"c","agent_slug":"a","prompt":"{{.Schedule}} at {{.Bogus}}"}}`:  "task.prompt",
		`{"cron":"0 3 * * *","task":{"context_id":"{{.Date}}","agent_slug":"a","prompt":"p"}}`:                    "task.context_id",
		`{"cron":"0 3 * * *","task":{"context_id":"c","agent_slug":"a","prompt":"p","run_at":1}}`:                 "task",
		`{"cron":"0 3 * * *","task":{"context_id":"c","agent_slug":"a","prompt":"p","policy":{"timeout_sec":0}}}`: "task.policy.timeout_sec",
	} {
		f := r.fails(400, bloom.CodeInvalid, "PUT", "/schedules/a", body)
		if len(f.Details) == 0 || f.Details[0].Field != field {
			t.Errorf("%s: %+v, want %s", body, f, field)
		}
	}
	ok := `{"cron":"0 3 * * *",` + task + `}`
	r.fails(400, bloom.CodeInvalid, "PUT", "/schedules/"+strings.Repeat("a", 65), ok)
	r.fails(413, bloom.CodeTooLarge, "PUT", "/schedules/a", `{"cron":"0 3 * * *","task":{"context_id":"c","agent_slug":"a","prompt":"`+strings.Repeat("p", 33<<10)+`"}}`)
	for _, path := range []string{"POST /schedules/absent/run", "POST /schedules/absent/pause", "DELETE /schedules/absent", "GET /schedules/absent"} {
		method, path, _ := strings.Cut(path, " ")
		r.fails(404, bloom.CodeNotFound, method, path, "")
	}
	for i := range schedule.MaxSchedules {
		_, err := r.store.SaveSchedule(t.Context(), bloom.Schedule{Name: fmt.Sprint(i)}, "a")
		must(t, err)
	}
	r.fails(409, bloom.CodeConflict, "PUT", "/schedules/a", ok)
	r.call(200, nil, "PUT", "/schedules/7", ok)
	var list []bloom.Schedule
	if r.call(200, &list, "GET", "/schedules", ""); len(list) != schedule.MaxSchedules || string(storable.MustJSON(list[0].Recent)) != "[]" {
		t.Errorf("%d schedules", len(list))
	}
}
