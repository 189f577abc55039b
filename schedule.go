package bloom

import "regexp"

// placeholder is what the time or the name of a schedule is put in place of.
var placeholder = regexp.MustCompile(`\{\{\.\w+\}\}`)

// ScheduleSpec says what to start, and when.
type ScheduleSpec struct {
	Cron     string   `json:"cron,omitempty" required:"false" maxLength:"200" doc:"Minute, hour, day, month and weekday: 0 3 * * 1-5; or @hourly, @daily, @weekly, @monthly" example:"0 3 * * 1-5"`
	EverySec int64    `json:"every_sec,omitempty" required:"false" minimum:"0" maximum:"31536000" doc:"Start every so many seconds instead, at least 60"`
	TimeZone string   `json:"time_zone" required:"false" maxLength:"64" default:"UTC" doc:"Of cron, by its name: Europe/Kyiv. A time that the clocks skip counts right after the change; one that they repeat counts once"`
	Task     TaskSpec `json:"task" doc:"The task to start. {{.ScheduledAt}} in prompt and context_id becomes the time, {{.Schedule}} the name: with a fixed context_id each task continues the conversation of the last"`
	Overlap  string   `json:"overlap" required:"false" enum:"skip,allow,cancel" default:"skip" doc:"If the last task has not ended: skip this time, start another, or cancel the last"`
	CatchUp  string   `json:"catch_up" required:"false" enum:"one,none" default:"one" doc:"After an outage: start the last missed time if it is at most an hour ago, or none. Never more than one"`
	Paused   bool     `json:"paused" required:"false" default:"false" doc:"Nothing starts"`
}

// Check returns what is wrong with a schedule beyond the limits of its fields.
func (s ScheduleSpec) Check() (wrong []FieldError) {
	switch {
	case (s.Cron == "") == (s.EverySec == 0):
		wrong = append(wrong, FieldError{Field: "cron", Message: "must be given, or every_sec, but not both"})
	case s.EverySec != 0 && s.EverySec < 60:
		wrong = append(wrong, FieldError{Field: "every_sec", Message: "must be at least 60"})
	}
	if s.Task.RunAt != 0 || s.Task.DelayMS != 0 || s.Task.IdempotencyKey != "" {
		wrong = append(wrong, FieldError{Field: "task", Message: "must have no run_at, delay_ms or idempotency_key: the schedule sets the time"})
	}
	for _, text := range [2][2]string{{"task.prompt", s.Task.Prompt}, {"task.context_id", s.Task.ContextID}} {
		for _, is := range placeholder.FindAllString(text[1], -1) {
			if is != "{{.ScheduledAt}}" && is != "{{.Schedule}}" {
				wrong = append(wrong, FieldError{Field: text[0], Message: "must have no placeholders but {{.ScheduledAt}} and {{.Schedule}}"})
				break
			}
		}
	}
	for _, w := range s.Task.Check() {
		wrong = append(wrong, FieldError{Field: "task." + w.Field, Message: w.Message})
	}
	return wrong
}

// Schedule starts tasks by the clock.
type Schedule struct {
	Name string `json:"name"`
	ScheduleSpec
	CreatedAt int64        `json:"created_at" doc:"Unix milliseconds"`
	CreatedBy string       `json:"created_by" doc:"Who saved it last; its tasks are created in this name"`
	NextAt    *int64       `json:"next_at" doc:"Unix milliseconds; null while it is paused, and if there is no next time"`
	Upcoming  []int64      `json:"upcoming" nullable:"false" doc:"The next five times"`
	Recent    []Occurrence `json:"recent" nullable:"false" doc:"The last 50 occurrences, newest first; the audit log has all"`
}

// Occurrence is a time at which a schedule was to start a task.
type Occurrence struct {
	At      int64   `json:"at" doc:"When it was due, Unix milliseconds; of several, the first"`
	Count   int64   `json:"count" doc:"How many times in a row this stands for; more than 1 only if they were missed"`
	TaskID  *string `json:"task_id" doc:"The task that was started"`
	Skipped string  `json:"skipped,omitempty" enum:"missed,overlap,queue_full" doc:"Why nothing was started"`
	Manual  bool    `json:"manual,omitempty" doc:"It was started by hand"`
}
