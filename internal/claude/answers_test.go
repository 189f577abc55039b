package claude_test

import (
	"fmt"
	"testing"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/standin"
)

func TestOnlyACompleteAnswerIsASuccess(t *testing.T) {
	t.Parallel()
	overloaded := standin.Reply{Broken: true, ErrorType: "overloaded_error", ErrorMessage: "Overloaded"}
	for name, test := range map[string]struct {
		respond standin.Responder
		class   bloom.ErrorClass
		output  string
	}{
		"empty":              {standin.Sequence(standin.Reply{}), bloom.ClassIncomplete, ""},
		"thinking only":      {standin.Sequence(standin.Reply{Thinking: "hm"}), bloom.ClassIncomplete, ""},
		"paused":             {standin.Sequence(standin.Reply{Text: "half", Stop: "pause_turn"}), bloom.ClassIncomplete, "half"},
		"unknown reason":     {standin.Sequence(standin.Reply{Text: "half", Stop: "tea_time"}), bloom.ClassIncomplete, "half"},
		"maximum output":     {standin.Sequence(standin.Reply{Text: "half", Stop: "max_tokens"}), bloom.ClassIncomplete, "halfhalfhalfhalf"},
		"context window":     {standin.Sequence(standin.Reply{Text: "half", Stop: "model_context_window_exceeded"}), bloom.ClassContextTooLong, ""},
		"refused":            {standin.Sequence(standin.Reply{Stop: "refusal"}), bloom.ClassRefused, ""},
		"overloaded at once": {standin.Sequence(overloaded), bloom.ClassProviderError, ""},
		"overloaded later":   {standin.Sequence(standin.Reply{Text: "half", Broken: true, ErrorType: "overloaded_error", ErrorMessage: "Overloaded"}), bloom.ClassProviderError, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t, test.respond)
			h.config.MaxRetries = 1
			run, _ := h.run(task("hello"))
			wantError(t, run, test.class)
			if test.output != "" && (run.Completion.Output == nil || *run.Completion.Output != test.output) {
				t.Errorf("run = %s, want the output %q", show(run), test.output)
			}
		})
	}
}

func TestJSONThatWasCutOffNeedsNoRepair(t *testing.T) {
	t.Parallel()
	h := newHarness(t, standin.Sequence(standin.Reply{Text: `{"a": [1, 2,`, Stop: "max_tokens"}, standin.Reply{Text: " 3]}"}))
	asked := task("json please")
	asked.DesiredFormat = bloom.FormatJSON
	run, j := h.run(asked)
	wantSuccess(t, run, `{"a": [1, 2, 3]}`)
	if n := len(h.model.Requests()); n != 2 || j.warned("output_repair") {
		t.Errorf("the model was asked %d times, want 2; events %v", n, j.events)
	}
}

func TestAHookDecidesTheOutcome(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		event, command string
		class          bloom.ErrorClass // empty for a success
		output         string
		requests       int
	}{
		"blocks the prompt":           {"UserPromptSubmit", "echo not here >&2; exit 2", bloom.ClassRefused, "", 0},
		"stops the prompt":            {"UserPromptSubmit", `echo '{"continue":false,"stopReason":"no"}'`, bloom.ClassRefused, "", 0},
		"never lets it end":           {"Stop", "echo not yet >&2; exit 2", bloom.ClassIncomplete, "the answer", 9},
		"lets it end the second time": {"Stop", "[ -e once ] && exit 0; touch once; echo not yet >&2; exit 2", "", "the answer", 2},
		"stops it":                    {"Stop", `echo '{"continue":false,"stopReason":"no"}'`, bloom.ClassRefused, "", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t, standin.Sequence(standin.Reply{Text: "the answer"}))
			h.file(".claude/settings.json", fmt.Sprintf(`{"hooks":{%q:[{"hooks":[{"type":"command","command":%q}]}]}}`, test.event, test.command))
			run, j := h.run(task("hello"))
			if test.class == "" {
				wantSuccess(t, run, test.output)
			} else {
				wantError(t, run, test.class)
			}
			if out := run.Completion.Output; test.output != "" && (out == nil || *out != test.output) {
				t.Errorf("run = %s, want the output %q", show(run), test.output)
			}
			if n := len(h.model.Requests()); n != test.requests || j.warned("process_replaced") {
				t.Errorf("the model was asked %d times, want %d; events %v", n, test.requests, j.events)
			}
		})
	}
}
