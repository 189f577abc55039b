package claude_test

import (
	"strings"
	"testing"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/standin"
)

func TestJSONOutputLosesItsFence(t *testing.T) {
	t.Parallel()
	h := newHarness(t, standin.Sequence(standin.Reply{Text: "```json\n{\"a\": 1}\n```"}))
	jsonTask := task("json please")
	jsonTask.DesiredFormat = bloom.FormatJSON
	run, _ := h.run(jsonTask)
	wantSuccess(t, run, `{"a": 1}`)
	if !strings.Contains(h.model.Requests()[0].SystemText(), "desired_format") {
		t.Error("the model was not instructed to return JSON")
	}
}

func TestJSONOutputIsRepairedOnceInTheSameSession(t *testing.T) {
	t.Parallel()
	h := newHarness(t, standin.Sequence(standin.Reply{Text: "here you are"}, standin.Reply{Text: "[1]"}))
	jsonTask := task("json please")
	jsonTask.DesiredFormat = bloom.FormatJSON
	run, j := h.run(jsonTask)
	wantSuccess(t, run, "[1]")
	if !j.warned("output_repair") {
		t.Error("the repair is not in the events")
	}
	requests := h.model.Requests()
	if last := requests[len(requests)-1].Conversation(); !strings.Contains(last, "json please") || !strings.Contains(last, "here you are") {
		t.Errorf("the repair was not asked in the same session:\n%s", last)
	}
	if used := run.Completion.Metrics.TokensUsed; used == nil || *used != 30 {
		t.Errorf("metrics = %s, want both turns' 30 tokens", show(run))
	}
}

func TestJSONOutputThatStaysInvalidFails(t *testing.T) {
	t.Parallel()
	h := newHarness(t, standin.Sequence(standin.Reply{Text: "never"}))
	jsonTask := task("json please")
	jsonTask.DesiredFormat = bloom.FormatJSON
	run, _ := h.run(jsonTask)
	wantError(t, run, bloom.ClassOutputInvalid)
	if n := len(h.model.Requests()); n != 2 {
		t.Errorf("the model was asked %d times, want 2", n)
	}
	if run.Completion.Output == nil || *run.Completion.Output != "never" {
		t.Errorf("run = %s, want the invalid output kept", show(run))
	}
}
