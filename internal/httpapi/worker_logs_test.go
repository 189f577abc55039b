package httpapi_test

import (
	"strings"
	"testing"

	"github.com/bloom-runtime/bloom"
)

func TestWorkersReportTheirLastLogLines(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.fails(404, "not_found", "GET", "/workers/w1/logs", "")
	r.worker("w1", 1)
	var logs bloom.WorkerLogs
	if a := r.call(200, &logs, "GET", "/workers/w1/logs", ""); logs.UpdatedAt != 0 || !strings.Contains(string(a.body), `"lines":[]`) {
		t.Errorf("before any report: %s", a.body)
	}
	r.call(200, nil, "POST", "/workers/w1/logs", `{"instance_id":"i","lines":[{"at":1,"level":"WARN","text":"<b>hot</b>"}]}`)
	if r.call(200, &logs, "GET", "/workers/w1/logs", ""); logs.UpdatedAt == 0 || len(logs.Lines) != 1 || logs.Lines[0] != (bloom.LogLine{At: 1, Level: "WARN", Text: "<b>hot</b>", InstanceID: "i"}) {
		t.Errorf("afterwards: %+v", logs)
	}
	r.fails(400, "invalid_request", "POST", "/workers/w1/logs", `{"lines":[`+strings.Repeat(`{"at":1,"level":"INFO","text":"x"},`, 100)+`{"at":1,"level":"INFO","text":"x"}]}`)
	own := r.newKey("worker", `,"worker_id":"w2"`).Key
	r.fails(403, "", "POST", "/workers/w1/logs", `{"lines":[]}`, "X-Runtime-API-Key", own)
}
