package httpapi_test

import (
	"strings"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/auth"
	"github.com/bloom-runtime/bloom/internal/dispatch"
	"github.com/bloom-runtime/bloom/internal/httpapi"
	"github.com/bloom-runtime/bloom/internal/problems"
	"github.com/bloom-runtime/bloom/internal/storable"
)

type standing time.Time

func (s standing) Now() time.Time { return time.Time(s) }

func TestAQueuedTaskSaysWhatItWaitsFor(t *testing.T) {
	t.Parallel()
	// The service's clock stands still, so that the time reserved for the context's worker does not
	// pass.
	r := newFixture(t, func(dc *dispatch.Config, _ *auth.Config, _ *httpapi.Config) { dc.Clock = standing(time.Now()) })
	waits := func(id string, want bloom.WaitReason) bloom.WaitingFor {
		t.Helper()
		var task bloom.Task
		r.call(200, &task, "GET", "/llm-tasks/"+id, "")
		if task.WaitingFor == nil || task.WaitingFor.Reason != want || task.WaitingFor.Sentence == "" {
			t.Fatalf("waits for %+v, want %s", task.WaitingFor, want)
		}
		return *task.WaitingFor
	}
	plain := r.task("")
	waits(plain.ID, problems.WaitNoWorker)
	r.worker("w1", 1)
	waits(plain.ID, problems.WaitNoClaims)
	r.call(200, nil, "POST", "/workers/w1/claim", `{"instance_id":"i"}`)
	waits(plain.ID, problems.WaitNothing)
	if w := waits(r.task(`,"labels":["gpu","eu"]`).ID, problems.WaitLabels); strings.Join(w.Labels, " ") != "gpu eu" || !strings.Contains(w.Sentence, "gpu, eu") {
		t.Errorf("labels: %+v", w)
	}
	at := time.Now().Add(time.Hour).UnixMilli()
	if w := waits(r.task(`,"run_at":`+string(storable.MustJSON(at))).ID, problems.WaitDelayed); w.Until != at {
		t.Errorf("delayed: %+v, want %d", w, at)
	}
	first, second := r.task(`,"policy":{"ordered":true}`), r.task(`,"policy":{"ordered":true}`)
	if w := waits(second.ID, problems.WaitOrdered); w.TaskID != first.ID || !strings.Contains(w.Sentence, first.ID) {
		t.Errorf("ordered: %+v, want %s", w, first.ID)
	}
	r.lease(first.ID)
	if w := waits(plain.ID, problems.WaitFull); w.Used != 1 || w.Slots != 1 {
		t.Errorf("full: %+v", w)
	}
	r.call(200, nil, "POST", "/llm-tasks/"+first.ID+"/complete", `{"status":"success","output":"x"}`)
	if w := waits(second.ID, problems.WaitKept); w.WorkerID != "w1" {
		t.Errorf("kept: %+v", w)
	}
	r.call(200, nil, "POST", "/workers/w1/drain", `{"drain":true}`)
	waits(plain.ID, problems.WaitDrained)
	for _, path := range []string{"/llm-tasks/" + first.ID, "/llm-tasks"} {
		if a := r.call(200, nil, "GET", path, ""); strings.Contains(string(a.body), "waiting_for") {
			t.Errorf("%s shows what is waited for: %s", path, a.body)
		}
	}
}
