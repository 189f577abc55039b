package httpapi_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/auth"
	"github.com/bloom-runtime/bloom/internal/dispatch"
	"github.com/bloom-runtime/bloom/internal/httpapi"
	"github.com/bloom-runtime/bloom/internal/problems"
	"github.com/bloom-runtime/bloom/internal/storable"
	"github.com/bloom-runtime/bloom/internal/timing"
)

// problems computes the problems again: the clock moves past the cached ones.
func (r *fixture) problems() map[string]bloom.Problem {
	r.t.Helper()
	r.clock.by.Add(int64(3 * time.Second))
	var found bloom.Problems
	r.call(200, &found, "GET", "/problems", "")
	by := map[string]bloom.Problem{}
	for _, p := range found.Problems {
		if p.Sentence == "" || p.Action == "" || !strings.HasPrefix(p.Link, "/") || strings.Contains(p.Sentence+p.Action, "%!") {
			r.t.Errorf("a problem without its parts: %+v", p)
		}
		by[p.Code] = p
	}
	return by
}

func codes(found map[string]bloom.Problem) (all []string) {
	for code := range found {
		all = append(all, code)
	}
	slices.Sort(all)
	return all
}

func TestProblemsSayWhatIsWrongAndWhy(t *testing.T) {
	t.Parallel()
	machine := problems.Machine{Version: "2.0"}
	r := newFixture(t, func(dc *dispatch.Config, _ *auth.Config, _ *httpapi.Config) {
		dc.Machine = func() problems.Machine { return machine }
		dc.MaxQueued = 3
	})
	dc := r.clock
	wants := func(when string, want ...string) map[string]bloom.Problem {
		t.Helper()
		found := r.problems()
		if slices.Sort(want); !slices.Equal(codes(found), want) {
			t.Errorf("%s: %v, want %v", when, codes(found), want)
		}
		return found
	}
	wants("nothing is there")
	r.task(`,"labels":["gpu"]`)
	wants("a task and no worker", "no_workers")
	r.worker("w1", 1)
	found := wants("no worker with its labels", "tasks_wait_for_labels")
	if p := found["tasks_wait_for_labels"]; p.Count != 1 || !slices.Equal(p.Labels, []string{"gpu"}) || p.Severity != bloom.SeverityError || p.Sentence != "1 task waits for a worker with the label gpu" {
		t.Errorf("it is reported as %+v", p)
	}
	r.call(200, nil, "POST", "/workers", `{"name":"w1","capabilities":{"labels":["gpu"],"claude_cli":true},"agent_version":"1.0"}`)
	wants("another version", "worker_versions_differ")
	r.call(200, nil, "POST", "/workers/w1/drain", `{"drain":true}`)
	found = wants("drained", "tasks_wait_for_drained_workers", "worker_versions_differ", "workers_drained")
	if found["workers_drained"].Severity != bloom.SeverityError {
		t.Errorf("with tasks waiting: %+v", found["workers_drained"])
	}
	r.call(200, nil, "POST", "/workers/w1/drain", `{"drain":false}`)
	r.task(`,"run_at":` + itoa(timing.Millis(dc.Now().Add(time.Hour))))
	r.task("")
	machine.FreeBytes, machine.DiskLow, machine.CertExpires = 1<<20, true, timing.Millis(dc.Now().Add(50*time.Hour))
	found = wants("all at once", "certificate_expires", "disk_low", "queue_full", "tasks_delayed", "worker_versions_differ")
	if found["disk_low"].Severity != bloom.SeverityError || found["certificate_expires"].Severity != bloom.SeverityError || found["tasks_delayed"].Severity != bloom.SeverityInfo {
		t.Errorf("reported as %+v", found)
	}
}

func TestProblemsAreLookedForAtMostEveryTwoSeconds(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	if got := r.problems(); len(got) != 0 {
		t.Fatalf("at first: %v", got)
	}
	r.task("")
	var found bloom.Problems
	if r.call(200, &found, "GET", "/problems", ""); len(found.Problems) != 0 || found.Problems == nil {
		t.Errorf("within two seconds: %+v", found.Problems)
	}
	if got := r.problems(); got["no_workers"].Severity != bloom.SeverityError {
		t.Errorf("afterwards: %v", got)
	}
}

func TestAStoreThatDoesNotAnswerIsAProblem(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	r.problems()
	must(t, r.store.Close())
	if p := r.problems()["storage_unavailable"]; p.Severity != bloom.SeverityError {
		t.Errorf("reported as %+v", p)
	}
}

func TestProblemsOfCredentialsAndEndedTasks(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	r.worker("w1", 9)
	refused, failed, limited := r.task(""), r.task(""), r.task("")
	for _, task := range []bloom.Task{refused, failed, limited} {
		r.lease(task.ID)
	}
	r.call(200, nil, "POST", "/llm-tasks/"+refused.ID+"/complete", `{"status":"error","error_message":"no","error_class":"auth","metrics":{"duration_ms":1}}`)
	r.call(200, nil, "POST", "/llm-tasks/"+failed.ID+"/complete", `{"status":"error","error_message":"no","metrics":{"duration_ms":1}}`)
	found := r.problems()
	if p := found["credentials_refused"]; p.Link != "/tasks/"+refused.ID || !slices.Equal(p.Names, []string{"w1"}) || p.Severity != bloom.SeverityError {
		t.Errorf("refused: %+v", p)
	}
	if p := found["tasks_failed"]; p.Count != 1 {
		t.Errorf("failed: %+v", p)
	}
	r.clock.by.Add(int64(3 * time.Second)) // the problems are cached for two
	r.call(200, nil, "POST", "/llm-tasks/"+limited.ID+"/complete", `{"status":"success","output":"yes","metrics":{"duration_ms":1}}`)
	if p, there := r.problems()["credentials_refused"]; there {
		t.Errorf("after the worker has completed a task: %+v", p)
	}
}

func TestProblemsOfKeysAreForAdministrators(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	soon := timing.Millis(r.clock.Now().Add(24 * time.Hour))
	r.call(201, nil, "POST", "/keys", `{"name":"ci","role":"client","expires_at":`+itoa(soon)+`}`)
	if p := r.problems()["keys_expire"]; p.Count != 1 || !slices.Equal(p.Names, []string{"ci"}) || p.Until != soon {
		t.Errorf("reported as %+v", p)
	}
	r.key = r.stored("viewer")
	if got := r.problems(); len(got) != 0 {
		t.Errorf("a viewer gets %+v", got)
	}
}

func itoa(n int64) string { return string(storable.MustJSON(n)) }

func TestADelayedReleaseIsNotACredentialProblem(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	r.worker("limit-1", 1)
	task := r.task("")
	l := r.lease(task.ID)
	r.call(200, nil, "POST", "/llm-tasks/"+task.ID+"/release",
		`{"lease_id":"`+l.Lease.ID+`","reason":"the machine restarts","not_before":`+itoa(timing.Millis(r.clock.Now().Add(time.Hour)))+`}`)
	if got := codes(r.problems()); !slices.Equal(got, []string{"tasks_delayed"}) {
		t.Errorf("found %v", got)
	}
}

func TestAReleaseThatMentionsALimitIsNoRateLimit(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	r.worker("w1", 1)
	task := r.task("")
	l := r.lease(task.ID)
	r.call(200, nil, "POST", "/llm-tasks/"+task.ID+"/release",
		`{"lease_id":"`+l.Lease.ID+`","reason":"the disk has reached its limit","not_before":`+itoa(timing.Millis(r.clock.Now().Add(time.Hour)))+`}`)
	var found bloom.Problems
	r.call(200, &found, "GET", "/problems", "")
	for _, p := range found.Problems {
		if p.Code == problems.CodeLimited {
			t.Errorf("%+v", p)
		}
	}
}
