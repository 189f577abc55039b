package storetest

import (
	"fmt"
	"slices"
	"sync"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/audit"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

func (h *harness) context(id string) bloom.Context {
	h.Helper()
	x, err := h.s.Context(h.ctx, id)
	h.ok(err)
	return x
}

var contextTests = map[string]func(*harness){
	"a context counts its tasks and their usage": func(h *harness) {
		h.worker("w", 4)
		_, err := h.s.Context(h.ctx, "trip")
		h.refused(err, bloom.ErrContextNotFound)
		first := h.create(inContext("trip"))
		began := h.now()
		same(h, "new", h.context("trip"), bloom.Context{ID: "trip", LastPrompt: first.Prompt, LastStatus: "queued", Tasks: 1, Unfinished: 1, CreatedAt: began, LastUsedAt: began, UpdatedAt: began})
		h.advance(1e9)
		l := h.lease(first.ID, "w")
		done := success(first.ID, l.ID, "done")
		tokens, cost := int64(70), 0.25
		done.Completion.Metrics.TokensUsed, done.Completion.Metrics.CostUSD = &tokens, &cost
		h.complete(done)
		h.complete(done) // a repetition is not counted
		x := h.context("trip")
		same(h, "worker", deref(x.WorkerID), "w")
		x.WorkerID = nil
		same(h, "after one", x, bloom.Context{ID: "trip", LastPrompt: first.Prompt, LastStatus: "completed", Tasks: 1, Tokens: 70, CostUSD: 0.25, CreatedAt: began, LastUsedAt: began, UpdatedAt: h.now()})
		h.advance(1e9)
		second := h.create(inContext("trip"))
		_, err = h.s.Cancel(h.ctx, second.ID, "me")
		h.ok(err)
		same(h, "unfinished after a cancellation", h.context("trip").Unfinished, int64(0))
		_, err = h.s.Requeue(h.ctx, second.ID, "me")
		h.ok(err)
		x = h.context("trip")
		same(h, "unfinished after a requeue", x.Unfinished, int64(1))
		same(h, "tasks", x.Tasks, int64(2))
		same(h, "last use", x.LastUsedAt, began+2000)
	},
	"a context is named, pinned and found by both": func(h *harness) {
		h.create(inContext("Trip-1"))
		h.create(inContext("other"))
		_, err := h.s.ChangeContext(h.ctx, "nobody", contract.ContextPatch{Pinned: new(true)}, "me")
		h.refused(err, bloom.ErrContextNotFound)
		x, err := h.s.ChangeContext(h.ctx, "Trip-1", contract.ContextPatch{Name: new("Подорож")}, "me")
		h.ok(err)
		same(h, "name", x.Name, "Подорож")
		_, err = h.s.ChangeContext(h.ctx, "Trip-1", contract.ContextPatch{Pinned: new(true)}, "me")
		h.ok(err)
		_, err = h.s.ChangeContext(h.ctx, "Trip-1", contract.ContextPatch{Pinned: new(true)}, "me") // a repetition is not audited
		h.ok(err)
		same(h, "audited", len(h.actions("Trip-1")), 2)
		h.create(inContext("Trip-1")) // a task leaves both as they are
		for what, q := range map[string]bloom.ContextQuery{"id": {Text: "trip"}, "name": {Text: "ПОДОР"}, "pin": {Pinned: true}, "all three": {Text: "trip-1", Pinned: true}} {
			found, _, err := h.s.Contexts(h.ctx, q)
			h.ok(err)
			if len(found) != 1 || found[0].ID != "Trip-1" || found[0].Name != "Подорож" || !found[0].Pinned {
				h.Errorf("by its %s: %+v", what, found)
			}
		}
		found, _, err := h.s.Contexts(h.ctx, bloom.ContextQuery{Text: "nothing"})
		h.ok(err)
		same(h, "found", len(found), 0)
	},
	"a retried attempt counts its usage, and the task once": func(h *harness) {
		h.worker("w", 1)
		task := h.create(inContext("c"))
		l := h.lease(task.ID, "w")
		r := failure(task.ID, l.ID, "crashed", true)
		in, out := int64(5), int64(6)
		r.Completion.Metrics.InputTokens, r.Completion.Metrics.OutputTokens = &in, &out
		h.complete(r)
		x := h.context("c")
		same(h, "tokens", x.Tokens, int64(11))
		same(h, "tasks", x.Tasks, int64(1))
		same(h, "unfinished", x.Unfinished, int64(1))
	},
	"contexts are listed by their newest task, page by page": func(h *harness) {
		for _, id := range []string{"a", "b", "c", "a", "d", "b"} {
			h.create(inContext(id))
		}
		var got []string
		q := bloom.ContextQuery{Page: bloom.Page{Limit: 3}}
		for range 5 {
			list, next, err := h.s.Contexts(h.ctx, q)
			h.ok(err)
			for _, x := range list {
				got = append(got, x.ID)
			}
			if q.Cursor = next; next == (bloom.Cursor{}) {
				break
			}
		}
		same(h, "the order", fmt.Sprint(got), "[b d a c]")
	},
	"a context is deleted": func(h *harness) {
		h.worker("w", 4)
		task := h.create(inContext("gone"))
		h.refused(h.s.ForgetContext(h.ctx, "gone", "me"), bloom.Conflict(""))
		l := h.lease(task.ID, "w")
		r := success(task.ID, l.ID, "done")
		r.ContextID, r.Completion.Transcript = "gone", &bloom.TranscriptUpdate{SessionID: "s", Size: 1, SHA256: "one", Parts: []bloom.TranscriptPart{{URL: "file:a"}}}
		h.complete(r)
		h.ok(h.s.ForgetContext(h.ctx, "gone", "me"))
		_, err := h.s.Context(h.ctx, "gone")
		h.refused(err, bloom.ErrContextNotFound)
		h.refused(h.s.ForgetContext(h.ctx, "gone", "me"), bloom.ErrContextNotFound)
		if got, err := h.s.Transcript(h.ctx, "gone"); got != nil || err != nil {
			h.Errorf("its transcript: %+v, %v", got, err)
		}
		list, err := h.s.Forgotten(h.ctx, 0, 10)
		h.ok(err)
		if len(list) != 1 || list[0].ID != "gone" {
			h.Errorf("forgotten: %+v", list)
		}
		rest, err := h.s.Forgotten(h.ctx, list[0].Seq, 10)
		h.ok(err)
		same(h, "after it", len(rest), 0)
		same(h, "removed", h.toDelete(), "[file:a]")
		again := h.create(inContext("gone"))
		place, err := h.s.QueuePlace(h.ctx, again.ID)
		h.ok(err)
		same(h, "nobody is preferred", place.Preferred, "")
		same(h, "it starts again", h.context("gone").Tasks, int64(1))
		_, err = h.s.Cancel(h.ctx, again.ID, "me")
		h.ok(err)
	},
	"many concurrent operations in few contexts": func(h *harness) {
		h.worker("w", 32)
		var all sync.WaitGroup
		for i := range 60 {
			all.Go(func() {
				task, _, err := h.s.CreateTask(h.ctx, newTask(inContext(fmt.Sprint("c", i%3))))
				if err != nil {
					h.Error(err)
					return
				}
				if _, err := h.s.Cancel(h.ctx, task.ID, "me"); err != nil {
					h.Error(err)
				}
			})
		}
		all.Wait()
		for i := range 3 {
			x := h.context(fmt.Sprint("c", i))
			same(h, "tasks", x.Tasks, int64(20))
			same(h, "unfinished", x.Unfinished, int64(0))
		}
	},
}

func (h *harness) toDelete() string {
	h.Helper()
	list, err := h.s.RemovedContent(h.ctx, 0, 100)
	h.ok(err)
	urls := []string{}
	for _, c := range list {
		urls = append(urls, c.URL)
	}
	return fmt.Sprint(urls)
}

// contexts compares the contexts with the tasks. Contexts still count removed tasks and
// their usage.
func (c *checker) contexts() {
	type sums struct{ tasks, unfinished, tokens int64 }
	want := map[string]sums{}
	for _, t := range c.tasks {
		s := want[t.ContextID]
		s.tasks++
		if !t.Status.Terminal() {
			s.unfinished++
		}
		results, err := c.s.Results(c.ctx, t.ID)
		c.try(err)
		for _, r := range results {
			if _, known := c.usage[t.ID][r.Epoch]; !known {
				s.tokens += r.Metrics.Tokens()
			}
		}
		for _, u := range c.usage[t.ID] { // a result has what its run used before it was suspended, too
			s.tokens += u.TokensUsed
		}
		want[t.ContextID] = s
	}
	all, err := pages(func(p bloom.Page) ([]bloom.Context, bloom.Cursor, error) {
		return c.s.Contexts(c.ctx, bloom.ContextQuery{Page: p})
	})
	c.try(err)
	for id := range c.forgotten {
		delete(want, id) // it may count fewer tasks, or be deleted
		all = slices.DeleteFunc(all, func(x bloom.Context) bool { return x.ID == id })
	}
	removed := c.cuts[audit.ActionTasksRemoved]+c.cuts[audit.ActionAuditRemoved] > 0
	for _, x := range all {
		s := want[x.ID]
		delete(want, x.ID)
		exact := x.Tasks == s.tasks && x.Tokens == s.tokens
		if x.Unfinished != s.unfinished || !exact && !(removed && x.Tasks >= s.tasks && x.Tokens >= s.tokens) {
			c.wrong("context %q counts %d tasks, %d unfinished, %d tokens; there are %+v", x.ID, x.Tasks, x.Unfinished, x.Tokens, s)
		}
	}
	for id, s := range want {
		c.wrong("context %q is not there: %+v", id, s)
	}
}
