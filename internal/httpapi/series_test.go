package httpapi_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
)

func TestTheTimeSeriesShowsWhatHappened(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	read := func(query string) (s bloom.Series) {
		t.Helper()
		r.call(200, &s, "GET", "/stats/series"+query, "")
		if int64(len(s.Points)) != (s.To-s.From)/s.Step || s.Points[0].At != s.From {
			t.Errorf("%s: %d points of %d ms from %d, want them from %d to %d", query, len(s.Points), s.Step, s.Points[0].At, s.From, s.To)
		}
		return s
	}
	r.worker("w", 1)
	done := r.task("")
	r.task("")
	r.lease(done.ID)
	r.call(200, nil, "POST", "/llm-tasks/"+done.ID+"/complete", `{"status":"success","output":"x","metrics":{"input_tokens":40,"output_tokens":2,"cost_usd":0.5}}`)
	must(t, r.store.KeepSeries(t.Context()))
	for _, c := range []struct {
		query string
		step  time.Duration
	}{
		{"", time.Minute},
		{"?step=120", 2 * time.Minute},
		{"?step=86400", 24 * time.Hour},
		{"?step=60&from=" + ago(48*time.Hour), time.Hour}, // minutes are not stored that long
		{"?step=5400&from=" + ago(48*time.Hour), 2 * time.Hour},
		{"?from=" + ago(90*24*time.Hour-time.Minute), time.Hour},
		{"?from=" + ago(5*time.Minute), time.Minute},
		{"?from=" + ago(5*time.Minute) + "&to=" + ago(-5*time.Minute), time.Minute},
	} {
		s := read(c.query)
		if s.Step != c.step.Milliseconds() {
			t.Errorf("%s: a step of %d ms, want %s", c.query, s.Step, c.step)
		}
		if s.Now.Queued != 1 || s.Now.Running != 0 || s.Now.OldestWait == nil {
			t.Errorf("%s: now %+v", c.query, s.Now)
		}
		sum, sampled := bloom.SeriesPoint{}, false
		for _, p := range s.Points {
			sum.Created += p.Created
			sum.Started += p.Started
			sum.Completed += p.Completed
			sum.TokensUsed += p.TokensUsed
			sum.CostUSD += p.CostUSD
			sampled = sampled || p.Queued != nil && *p.Queued == 1
		}
		if want := (bloom.SeriesPoint{Created: 2, Started: 1, Completed: 1, TokensUsed: 42, CostUSD: 0.5}); sum != want || !sampled {
			t.Errorf("%s: %+v (sampled %v), want %+v", c.query, sum, sampled, want)
		}
	}
	if s := read("?to=" + ago(30*time.Minute)); s.To-s.From > 24*3_600_000+60_000 {
		t.Errorf("a day before %d begins at %d", s.To, s.From)
	}
	for _, bad := range []string{
		"?from=x", "?from=-1", "?from=1.5", "?to=99999999999999999999", "?step=59", "?step=61", "?step=-60", "?step=x", "?step=99999999",
		"?from=" + ago(0) + "&to=" + ago(time.Hour), "?from=" + ago(time.Hour) + "&to=" + ago(time.Hour), "?from=1", "?from=1&step=3600",
	} {
		r.fails(400, "invalid_request", "GET", "/stats/series"+bad, "")
	}
}

// ago returns a time for the query.
func ago(d time.Duration) string { return strconv.FormatInt(time.Now().Add(-d).UnixMilli(), 10) }

func TestTheOverviewShowsWhatRunningTasksHaveUsed(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	r.worker("w", 2)
	task := r.task("")
	var got bloom.ClaimResult
	r.call(200, &got, "POST", "/workers/w/claim", `{"instance_id":"i","max":1}`)
	lease := got.Leases[0].Lease.ID
	shows := func(what string, tokens int64, cost float64) {
		t.Helper()
		var st bloom.Stats
		r.call(200, &st, "GET", "/stats", "")
		var s bloom.Series
		r.call(200, &s, "GET", "/stats/series", "")
		want := bloom.Usage{TokensUsed: tokens, InputTokens: tokens, CostUSD: cost}
		if st.Leases.Usage != want || s.Now.Usage != want {
			t.Errorf("%s: stats %+v, series %+v, want %+v", what, st.Leases.Usage, s.Now.Usage, want)
		}
		var one bloom.Task
		r.call(200, &one, "GET", "/llm-tasks/"+task.ID, "")
		var list []bloom.Task
		r.call(200, &list, "GET", "/llm-tasks", "")
		var leases []bloom.Lease
		r.call(200, &leases, "GET", "/leases", "")
		if one.Usage == nil || *one.Usage != want || *list[0].Usage != want || leases[0].Usage != want {
			t.Errorf("%s: task %+v, in the list %+v, lease %+v, want %+v", what, one.Usage, list[0].Usage, leases[0].Usage, want)
		}
	}
	r.call(200, nil, "POST", "/workers/w/claim", `{"instance_id":"i","held":["`+lease+`"],"usage":{"`+lease+`":{"input_tokens":40,"cost_usd":0.5}}}`)
	shows("claimed", 40, 0.5)
	claim := func(usage string) {
		t.Helper()
		r.fails(400, bloom.CodeInvalid, "POST", "/workers/w/claim", `{"instance_id":"i","usage":{`+usage+`}}`)
	}
	claim(`"` + lease + `":{"input_tokens":-1}`)
	var many []string
	for i := range 257 {
		many = append(many, fmt.Sprintf(`"%d":{}`, i))
	}
	claim(strings.Join(many, ","))
	beat := func(status int, usage string) {
		t.Helper()
		r.call(status, nil, "POST", "/llm-tasks/"+task.ID+"/heartbeat", `{"lease_id":"`+lease+`","usage":`+usage+`}`)
	}
	beat(200, `{"tokens_used":60,"input_tokens":60,"cost_usd":0.75}`)
	shows("renewed", 60, 0.75)
	beat(400, `{"tokens_used":-1}`)
	beat(400, `{"tokens":1}`)
	shows("refused", 60, 0.75)
}
