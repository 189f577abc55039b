package httpapi_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/auth"
	"github.com/bloom-runtime/bloom/internal/storable"
)

// leaseInBody are the routes with a lease in their body, and their other fields.
var leaseInBody = map[string]string{
	"heartbeat": "",
	"release":   "",
	"ask":       `,"kind":"tool","tool":"Bash","tool_use_id":"t","input":{}`,
	"suspend":   `,"approval_id":"0e9b5a4e-52f3-4c1c-9d0b-6f6b3a1f7d10","transcript":{"session_id":"s","sha256":"x"}`,
	"complete":  `,"status":"success","output":"","metrics":{"duration_ms":1}`,
}

func TestNoRouteTakesALeaseOfAnotherWorkersFromABoundKey(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	r.worker("w1", 1)
	task := r.task("")
	lease := r.lease(task.ID).Lease.ID
	for _, worker := range []string{"w1", "w2"} {
		bound := r.newKey(auth.RoleWorker, `,"worker_id":"`+worker+`"`).Key
		tried := 0
		for route, policy := range r.api.Policies() {
			method, path, _ := strings.Cut(route, " ")
			what, ofTask := strings.CutPrefix(path, "/api/runtime/llm-tasks/{id}/")
			if policy != auth.Worker || !ofTask || worker == "w1" && method == http.MethodPost {
				continue // the worker's own POSTs would end the lease
			}
			tried++
			body, headers := "", []string{auth.HeaderKey, bound}
			at := strings.Replace(path, "{id}", task.ID, 1) + "?lease_id=" + lease
			switch more, inBody := leaseInBody[what]; {
			case inBody:
				at, _, _ = strings.Cut(at, "?")
				body = `{"lease_id":"` + lease + `"` + more + `}`
			case method == http.MethodPost:
				body, headers = `{"seq":1,"type":"text","at":1,"data":{}}`, append(headers, "Content-Type", "application/x-ndjson")
			case method == http.MethodPut:
				body, at = "x", at+"&sha256="+sumOf("x")
				if what == "artifacts" {
					at += "&path=f"
				}
			}
			if got := r.do(method, at, body, headers...); (got.status == http.StatusForbidden) != (worker == "w2") {
				t.Errorf("%s answers %d to a key bound to %s: %s", route, got.status, worker, got.body)
			}
		}
		if tried < 8 {
			t.Errorf("only %d routes were tried", tried)
		}
	}
}

func TestASenderThatSendsNothingLosesItsConnection(t *testing.T) {
	t.Parallel()
	r := newFixture(t, withStreamTimeout(100*time.Millisecond))
	r.worker("w1", 1)
	task := r.task("")
	lease := r.lease(task.ID).Lease.ID
	at, sum := "/llm-tasks/"+task.ID, "&sha256="+sumOf("x")
	for name, request := range map[string]string{
		"transcript":      "PUT " + at + "/transcript?lease_id=" + lease + sum,
		"workspace":       "PUT " + at + "/workspace?lease_id=" + lease + sum,
		"artifact":        "PUT " + at + "/artifacts?path=f&lease_id=" + lease + sum,
		"a lost lease":    "PUT " + at + "/transcript?lease_id=" + task.ID + sum,
		"a wrong field":   "PUT " + at + "/artifacts?path=../f&lease_id=" + lease + sum,
		"events":          "POST " + at + "/events?lease_id=" + lease,
		"a task":          "POST /llm-tasks",
		"a completion":    "POST " + at + "/complete",
		"connection test": "POST /test-connection",
		"sign-in":         "POST /session",
		"a deletion":      "DELETE /contexts/c",
	} {
		for _, size := range []int{1000, 1 << 20} { // net/http reads the rest of the smaller one
			r.halfSent(fmt.Sprint(name, ", ", size, " bytes"), request, size)
		}
	}
	err := filepath.WalkDir(filepath.Join(r.dir, "artifacts"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			t.Errorf("%s was left", path)
		}
		return err
	})
	if err != nil && !os.IsNotExist(err) {
		t.Error(err)
	}
}

// halfSent sends the beginning of a body and waits until the server disconnects.
func (r *fixture) halfSent(name, request string, size int) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 2*time.Minute)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", strings.TrimPrefix(r.url, "http://"))
	must(r.t, err)
	defer conn.Close()
	limit, _ := ctx.Deadline()
	must(r.t, conn.SetDeadline(limit))
	method, path, _ := strings.Cut(request, " ")
	_, err = fmt.Fprintf(conn, "%s /api/runtime%s HTTP/1.1\r\nHost: x\r\n%s: %s\r\nContent-Type: application/octet-stream\r\nContent-Length: %d\r\n\r\nbeginning",
		method, path, auth.HeaderKey, adminKey, size)
	must(r.t, err)
	in := bufio.NewReader(conn)
	res, err := http.ReadResponse(in, nil)
	if err != nil {
		r.t.Errorf("%s: no answer: %v", name, err)
		return
	}
	defer res.Body.Close()
	if res.StatusCode < 400 {
		r.t.Errorf("%s: answered %s", name, res.Status)
	}
	if _, err := in.WriteTo(io.Discard); err != nil { // until the connection ends
		r.t.Errorf("%s: the connection stays: %v", name, err)
	}
}

func TestACompletionNamesNothingButWhatWasUploadedUnderItsLease(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	r.worker("w1", 1)
	task := r.task(`,"policy":{"workspace":"context"}`)
	lease := r.lease(task.ID).Lease.ID
	at := "/llm-tasks/" + task.ID
	var part bloom.TranscriptPart
	r.call(200, &part, "PUT", at+"/workspace?lease_id="+lease+"&sha256="+sumOf("part"), "part")
	key := strings.TrimPrefix(part.URL, "file:")
	output := "done"
	complete := func(p bloom.TranscriptPart, workspace bool) string {
		c := bloom.Completion{LeaseID: lease, Status: "success", Output: &output}
		if workspace {
			c.Workspace = &bloom.WorkspaceUpdate{Size: 4, SHA256: "sum", Parts: []bloom.TranscriptPart{p}}
		} else {
			c.Transcript = &bloom.TranscriptUpdate{SessionID: "11111111-1111-4111-8111-111111111111", Size: 4, SHA256: "sum", Parts: []bloom.TranscriptPart{p}}
		}
		return string(storable.MustJSON(c))
	}
	for _, p := range []bloom.TranscriptPart{
		{URL: "s3://evil/" + key, Size: 4},
		{URL: "minio://evil/" + key, Size: 4},
		{URL: "http://127.0.0.1/" + key, Size: 4},
		{URL: "file:artifacts/x?" + key, Size: 4},
		{URL: "file:../" + key, Size: 4},
		{URL: "x" + part.URL, Size: 4},
		{URL: strings.ToUpper(part.URL), Size: 4},
		{URL: part.URL, Size: -5},
		{URL: part.URL, Size: 0},
		{URL: part.URL, Size: bloom.MaxTranscriptPart + 1},
	} {
		for _, workspace := range []bool{true, false} {
			r.fails(400, "invalid_request", "POST", at+"/complete", complete(p, workspace))
		}
	}
	var now bloom.Task
	r.call(200, &now, "GET", at, "")
	if now.Status.Terminal() {
		t.Errorf("the task is %s", now.Status)
	}
	r.call(200, nil, "POST", at+"/complete", complete(part, true))
	must(t, os.Remove(filepath.Join(r.dir, "artifacts", filepath.FromSlash(key)))) // as after a replacement
	r.call(200, nil, "POST", at+"/complete", complete(part, true))
}
