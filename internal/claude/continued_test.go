package claude_test

import (
	"testing"

	"github.com/bloom-runtime/bloom/internal/standin"
)

func TestTheOutputHasAllPartsOfAnAnswerThatWasCutOff(t *testing.T) {
	t.Parallel()
	full := func(text string) standin.Reply { return standin.Reply{Text: text, Stop: "max_tokens"} }
	broken := func(text string) standin.Reply {
		return standin.Reply{Text: text, Broken: true, ErrorType: "overloaded_error", ErrorMessage: "Overloaded"}
	}
	for name, test := range map[string]struct {
		replies []standin.Reply
		output  string
		whole   bool // nothing to warn of
	}{
		"maximum output":    {replies: []standin.Reply{full("chapters 1-5, "), {Text: "chapters 6-7."}}, output: "chapters 1-5, chapters 6-7."},
		"twice":             {replies: []standin.Reply{full("1"), full("2"), {Text: "3"}}, output: "123"},
		"broken stream":     {replies: []standin.Reply{broken("half one"), {Text: ", half two"}}, output: "half one, half two"},
		"both":              {replies: []standin.Reply{broken("1"), full("2"), {Text: "3"}}, output: "123"},
		"silent in between": {replies: []standin.Reply{full("1"), {Thinking: "hm"}, {Text: "2"}}, output: "12"},
		"after a tool":      {replies: []standin.Reply{standin.Tool("I look", "Glob", map[string]any{"pattern": "*"}), full("1"), {Text: "2"}}, output: "12"},
		"before a tool":     {[]standin.Reply{full("I will"), standin.Tool(" look", "Glob", map[string]any{"pattern": "*"}), {Text: "found"}}, "found", true},
		"only thinking":     {[]standin.Reply{{Thinking: "hm", Stop: "max_tokens"}, {Text: "all"}}, "all", true},
	} {
		for mode, warm := range map[string]int{"cold": 0, "warm": 1} {
			t.Run(name+" "+mode, func(t *testing.T) {
				t.Parallel()
				h := newWarmHarness(t, warm, standin.Sequence(test.replies...))
				h.config.AllowedTools = []string{"Glob"}
				run, _ := h.run(task("write the report"))
				wantSuccess(t, run, test.output)
				if warned(run, "answer_in_parts") == test.whole {
					t.Errorf("run = %s, want a warning only of an answer in parts", show(run))
				}
			})
		}
	}
}
