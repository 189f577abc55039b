package httpapi_test

import (
	"net/http"
	"runtime"
	"strings"
	"testing"
)

// Handlers called by huma have 2.6 KB of its frames on the stack, which grows it from 8 to 16 KB
// for as long as a response lasts. (With the race detector stacks are larger anyway, so their size
// proves nothing.)
func TestLongRequestsHaveNoFramesOfHuma(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	r.worker("w", 1)
	task := r.task("")
	out := make(chan claimed, 1)
	r.claiming(out, "w", `{"instance_id":"i","max":0,"wait_sec":60}`)
	for _, path := range []string{"/api/runtime/events", "/api/runtime/llm-tasks/" + task.ID + "/events"} {
		res, err := r.client.Do(r.request("GET", path, ""))
		must(t, err)
		defer res.Body.Close()
		if res.StatusCode != http.StatusOK { // otherwise the stream is open: its header has arrived
			t.Fatalf("%s: %s", path, res.Status)
		}
	}
	for _, waits := range []string{"dispatch.(*Service).Claim(", "httpapi.(*Server).copyChanges(", "httpapi.(*Server).copyStream("} {
		if stack := stackIn(t, waits); strings.Contains(stack, "huma/v2") {
			t.Errorf("huma waits with it:\n%s", stack)
		}
	}
	r.service.Close()
	<-out
}

// stackIn waits for a goroutine in function and returns its stack.
func stackIn(t *testing.T, function string) string {
	t.Helper()
	dump := make([]byte, 16<<20)
	for t.Context().Err() == nil {
		for stack := range strings.SplitSeq(string(dump[:runtime.Stack(dump, true)]), "\n\n") {
			if strings.Contains(stack, function) {
				return stack
			}
		}
		runtime.Gosched()
	}
	t.Fatal("nobody waits in " + function)
	return ""
}
