package storetest

import (
	"encoding/json"
	"strings"
	"unicode/utf8"

	"github.com/bloom-runtime/bloom"
)

// poison is text that databases choke on.
var poison = map[string]string{
	"NUL":            "a\x00b",
	"invalid UTF-8":  "a\xff\xfeb",
	"lone surrogate": "a\xed\xa0\x80b",
	"quotes":         "'; DROP TABLE llm_tasks; --\"\\",
	"ten megabytes":  strings.Repeat("0123456789", 1<<20),
	"empty":          "",
}

var textTests = map[string]func(*harness){
	"poison in a prompt, an output and an error is kept clean": func(h *harness) {
		h.worker("w", 32)
		for name, text := range poison {
			want := bloom.CleanText(text)
			task := h.create(func(n *bloom.NewTask) { n.Spec.Prompt = text })
			if h.task(task.ID).Prompt != want || task.Prompt != want {
				h.Errorf("%s: another prompt came back", name)
			}
			c := h.complete(success(task.ID, h.lease(task.ID, "w").ID, text))
			if a, err := h.s.Artifact(h.ctx, c.Artifact.ID); err != nil || deref(a.Content) != want || deref(c.Result.Output) != want {
				h.Errorf("%s: another output came back: %v", name, err)
			}
			task = h.create()
			c = h.complete(failure(task.ID, h.lease(task.ID, "w").ID, text, false))
			if deref(c.Result.ErrorMessage) != want {
				h.Errorf("%s: another error came back", name)
			}
		}
	},
	"poison in an event's data is kept clean, and too much is cut and marked": func(h *harness) {
		h.worker("w", 1)
		task := h.create()
		l := h.lease(task.ID, "w")
		for i, data := range []string{
			`{"text":"a\u0000b"}`, `{"text":"a\ud800b"}`, "{\"text\":\"a\xffb\"}", `not json`, `{"text":"` + strings.Repeat("x", 2*bloom.MaxEventData) + `"}`,
		} {
			last, err := h.s.AppendEvents(h.ctx, task.ID, l.ID, []bloom.WorkerEvent{{Seq: int64(i), Type: "te\x00xt", Data: []byte(data)}})
			h.ok(err)
			events, err := h.s.Events(h.ctx, task.ID, last-1, 1)
			h.ok(err)
			if got := events[0].Data; !json.Valid(got) || !utf8.Valid(got) || strings.Contains(string(got), `\u0000`) || len(got) > bloom.MaxEventData {
				h.Errorf("%.30q came back as %.60q", data, got)
			}
			if len(data) > bloom.MaxEventData && !strings.Contains(string(events[0].Data), `"truncated"`) {
				h.Error("what was cut is not marked")
			}
		}
	},
	"poison in names and labels": func(h *harness) {
		h.worker("w", 9, "a\x00b", `["x"]`, "é,\n")
		for _, label := range []string{"a\x00b", `["x"]`, "é,\n"} {
			task := h.create(labelled(label), inContext("c\x00\xff"), func(n *bloom.NewTask) { n.Spec.AgentSlug = "\xff" })
			h.lease(task.ID, "")
			tasks, _, err := h.s.Tasks(h.ctx, bloom.TaskQuery{ContextID: bloom.CleanText("c\x00\xff")})
			h.ok(err)
			if len(tasks) == 0 {
				h.Error("the context is not found by its clean name")
			}
		}
	},
}
