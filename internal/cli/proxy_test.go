package cli_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/cli"
	"github.com/bloom-runtime/bloom/internal/proxytest"
	"github.com/bloom-runtime/bloom/internal/runtimetest"
)

// TestATaskIsRunThroughAProxyThatAnswersInTheServersStead: whatever a proxy answers once at each
// step, the command continues and creates the task once.
func TestATaskIsRunThroughAProxyThatAnswersInTheServersStead(t *testing.T) {
	t.Parallel()
	rt := runtimetest.Start(t)
	employ(t, rt, nil, bloom.Completion{Status: bloom.OutcomeSuccess, Output: text("pong")})
	step := func(r *http.Request) string {
		return r.Method + " " + r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
	}
	for name, answer := range proxytest.Answers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			proxy := proxytest.New(t, rt.URL)
			proxy.Answer(answer, step, 1, "POST llm-tasks", "GET events", "GET results")
			p := newPerson(t, rt)
			p.env["BLOOM_RUNTIME_URL"] = proxy.URL
			got := p.run("task", "run", "--context", name, "ping")
			if got.code != cli.ExitOK || !strings.Contains(got.out, "pong") {
				t.Errorf("exit code %d\n%s%s", got.code, got.out, got.err)
			}
			if tasks, _, err := apiOf(t, rt).Tasks(t.Context(), bloom.TaskQuery{ContextID: name}); err != nil || len(tasks) != 1 {
				t.Errorf("%d tasks, %v", len(tasks), err)
			}
			if left := proxy.Left(); len(left) > 0 {
				t.Errorf("never asked for %v", left)
			}
		})
	}
}
