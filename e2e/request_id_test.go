package e2e_test

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/bloom-runtime/bloom"
)

// TestARequestIsFollowedFromItsCallerToTheWorker posts a task under an id that the caller chose,
// and finds the id in the server's log, in the task, and in the worker's log.
func TestARequestIsFollowedFromItsCallerToTheWorker(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	server := h.serve("--no-membridge")
	worker := h.work(workerOptions{name: "w1", claude: quickClaude(t, filepath.Join(h.dir, "runs")), env: []string{}})
	body, err := json.Marshal(spec("works"))
	if err != nil {
		t.Fatal(err)
	}
	const id = "caller-7.a_B"
	status, answer := h.raw(t, http.MethodPost, "/llm-tasks", string(body), "X-Request-Id", id)
	var task bloom.Task
	if err := json.Unmarshal([]byte(answer), &task); err != nil || status != 201 || task.RequestID == nil || *task.RequestID != id {
		t.Fatalf("%d %s: %v", status, answer, err)
	}
	if o := h.await(t, task.ID); o.task.Status != bloom.TaskCompleted || o.task.RequestID == nil || *o.task.RequestID != id {
		t.Errorf("the task is %+v", o.task)
	}
	line := func(p *proc, pattern string) {
		t.Helper()
		eventually(t, "a line is like "+pattern, func() bool { return regexp.MustCompile(pattern).MatchString(p.out.String()) })
	}
	line(server, `POST /api/runtime/llm-tasks 201 \d+ms" request_id=`+regexp.QuoteMeta(id)+` `)
	for _, event := range []string{"task begun", "task finished and reported"} {
		line(worker, `msg="`+event+`".* task_id=`+task.ID+` .*request_id=`+regexp.QuoteMeta(id))
	}
	// A request without an id gets one, which is logged in the same way.
	status, answer = h.raw(t, http.MethodPost, "/llm-tasks", string(body))
	if err := json.Unmarshal([]byte(answer), &task); err != nil || status != 201 || task.RequestID == nil || len(*task.RequestID) != 24 {
		t.Fatalf("%d %s: %v", status, answer, err)
	}
	h.await(t, task.ID)
	server.says("request_id=" + *task.RequestID + " ")
	worker.says("request_id=" + *task.RequestID)
}
