package storetest

import (
	"strings"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

// awkward is text that databases may mishandle. NUL and invalid UTF-8, which no database
// can store, never reach a store.
var awkward = map[string]string{
	"quotes":        "'; DROP TABLE llm_tasks; --\"\\",
	"ten megabytes": strings.Repeat("0123456789", 1<<20),
	"empty":         "",
	"any alphabet":  "é\u0301\uFFFD\U0001F600\r\n\t\x7f",
}

var textTests = map[string]func(*harness){
	"a prompt, an output and an error are stored unchanged": func(h *harness) {
		h.worker("w", 32)
		for name, text := range awkward {
			task := h.create(func(n *contract.NewTask) { n.Spec.Prompt = text })
			if h.task(task.ID).Prompt != text || task.Prompt != text {
				h.Errorf("%s: another prompt came back", name)
			}
			c := h.complete(success(task.ID, h.lease(task.ID, "w").ID, text))
			if a, err := h.s.Artifact(h.ctx, c.Artifact.ID); err != nil || deref(a.Content) != text || deref(c.Result.Output) != text {
				h.Errorf("%s: another output came back: %v", name, err)
			}
			task = h.create()
			c = h.complete(failure(task.ID, h.lease(task.ID, "w").ID, text, false))
			if deref(c.Result.ErrorMessage) != text {
				h.Errorf("%s: another error came back", name)
			}
		}
	},
	"names and labels are stored unchanged": func(h *harness) {
		labels := []string{`["x"]`, "é,\n", "\uFFFD"}
		h.worker("w", 9, labels...)
		for _, label := range labels {
			task := h.create(labelled(label), inContext("c\uFFFD"))
			h.lease(task.ID, "")
			tasks, _, err := h.s.Tasks(h.ctx, bloom.TaskQuery{ContextID: "c\uFFFD"})
			h.ok(err)
			if len(tasks) == 0 {
				h.Error("the context is not found by its name")
			}
		}
	},
}
