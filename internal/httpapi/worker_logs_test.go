package httpapi_test

import (
	"strings"
	"testing"

	"github.com/bloom-runtime/bloom"
)

func TestWorkersReportTheirLastLogLines(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	r.fails(404, "not_found", "GET", "/workers/w1/logs", "")
	r.worker("w1", 1)
	var logs bloom.WorkerLogs
	if a := r.call(200, &logs, "GET", "/workers/w1/logs", ""); logs.UpdatedAt != 0 || !strings.Contains(string(a.body), `"lines":[]`) {
		t.Errorf("before any report: %s", a.body)
	}
	r.call(200, nil, "POST", "/workers/w1/logs", `{"instance_id":"i","lines":[{"at":1,"level":"WARN","text":"<b>hot</b>"}]}`)
	if r.call(200, &logs, "GET", "/workers/w1/logs", ""); logs.UpdatedAt == 0 || len(logs.Lines) != 1 || logs.Lines[0] != (bloom.LogLine{At: 1, Level: "WARN", Text: "<b>hot</b>", InstanceID: sumOf("i")[:12]}) {
		t.Errorf("afterwards: %+v", logs)
	}
	r.fails(400, "invalid_request", "POST", "/workers/w1/logs", `{"lines":[`+strings.Repeat(`{"at":1,"level":"INFO","text":"x"},`, 100)+`{"at":1,"level":"INFO","text":"x"}]}`)
	own := r.newKey("worker", `,"worker_id":"w2"`).Key
	r.fails(403, "", "POST", "/workers/w1/logs", `{"lines":[]}`, "X-Runtime-API-Key", own)
}

// A process proves with its instance id that it is the worker: readers of logs must not learn it,
// and no other worker may report in the worker's name.
func TestLogsHideTheInstanceIDAndComeFromTheLiveProcess(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	const process = "the-instance-id-of-w1"
	as := []string{"X-Runtime-API-Key", workerKey}
	r.call(201, nil, "POST", "/workers", `{"name":"w1","instance_id":"`+process+`"}`, as...)
	report := func(instance, text string) string {
		return `{"instance_id":"` + instance + `","lines":[{"at":1,"level":"INFO","text":"` + text + `"}]}`
	}
	r.call(200, nil, "POST", "/workers/w1/logs", report(process, "mine"), as...)
	for _, other := range []string{"", "another-process"} {
		r.fails(409, "worker_conflict", "POST", "/workers/w1/logs", report(other, "forged"), as...)
	}
	viewer := r.newKey("viewer", "").Key
	a := r.call(200, nil, "GET", "/workers/w1/logs", "", "X-Runtime-API-Key", viewer)
	if text := string(a.body); !strings.Contains(text, "mine") || strings.Contains(text, "forged") || strings.Contains(text, process) {
		t.Errorf("a viewer is shown %s", text)
	}
	r.clock.by.Add(int64(bloom.OfflineAfter)) // the process has been silent since
	r.call(200, nil, "POST", "/workers/w1/logs", report("another-process", "next"), as...)
	r.fails(404, "not_found", "POST", "/workers/w2/logs", report(process, "x"), as...)
}
