package storetest

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/audit"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

func (h *harness) removeContexts(limit int) contract.Removed {
	h.Helper()
	return h.remove(func(r contract.RemoveRequest) (contract.Removed, error) { return h.s.RemoveContexts(h.ctx, r) }, limit)
}

// spoken returns a context's task that ended with a transcript at a URL.
func (h *harness) spoken(id, url string) bloom.Task {
	h.Helper()
	task := h.create(inContext(id))
	r := success(task.ID, h.lease(task.ID, "w").ID, "done")
	r.ContextID, r.Completion.Transcript = id, &bloom.TranscriptUpdate{SessionID: "s", Size: 1, SHA256: url, Parts: []bloom.TranscriptPart{{URL: url, Size: 1}}}
	h.complete(r)
	return task
}

func (h *harness) forgotten(after int64) (ids []string, last int64) {
	h.Helper()
	list, err := h.s.Forgotten(h.ctx, after, 100)
	h.ok(err)
	for _, x := range list {
		ids, last = append(ids, x.ID), x.Seq
	}
	return ids, last
}

var contextRetentionTests = map[string]func(*harness){
	"an unused context is deleted with everything that belongs to it": func(h *harness) {
		h.worker("w", 4)
		task := h.spoken("gone", "file:a")
		h.advance(kept)
		h.removed(h.removeContexts(0), contract.Removed{})
		h.advance(time.Millisecond)
		h.removed(h.removeContexts(0), contract.Removed{Contexts: 1, Contents: 1})
		_, err := h.s.Context(h.ctx, "gone")
		h.refused(err, bloom.ErrContextNotFound)
		if got, err := h.s.Transcript(h.ctx, "gone"); got != nil || err != nil {
			h.Errorf("its transcript: %+v, %v", got, err)
		}
		ids, _ := h.forgotten(0)
		same(h, "the forgotten contexts", fmt.Sprint(ids), "[gone]")
		same(h, "to delete", h.toDelete(), "[file:a]")
		entries, _, err := h.s.Audit(h.ctx, bloom.AuditQuery{Action: audit.ActionContextForgotten})
		h.ok(err)
		if len(entries) != 1 || entries[0].EntityID != "gone" || entries[0].Actor != audit.ActorRetention {
			h.Errorf("it is audited as %+v", entries)
		}
		h.status(task.ID, bloom.TaskCompleted)
		h.removed(h.removeContexts(0), contract.Removed{})
		h.spoken("gone", "file:b")
		same(h, "it starts again", h.context("gone").Tasks, int64(1))
	},
	"a context that is in use stays": func(h *harness) {
		h.worker("w", 4)
		waits := h.create(inContext("waits"))
		late := h.create(inContext("ended late"))
		h.advance(long)
		h.worker("w", 4)
		h.finish(late.ID, "w")
		h.removed(h.removeContexts(0), contract.Removed{})
		_, err := h.s.Cancel(h.ctx, waits.ID, "me")
		h.ok(err)
		h.removed(h.removeContexts(0), contract.Removed{})
		h.advance(kept + time.Millisecond)
		h.removed(h.removeContexts(0), contract.Removed{Contexts: 2})
	},
	"contexts are deleted in batches": func(h *harness) {
		h.worker("w", 4)
		for i := range 25 {
			if i%5 == 0 {
				h.create(inContext(fmt.Sprint("lives ", i)))
			}
			h.spoken(fmt.Sprint("gone ", i), fmt.Sprint("file:", i))
		}
		h.advance(long)
		r := contract.RemoveRequest{OlderThan: kept, Limit: 10}
		var sizes []int64
		for more := true; more; {
			did, err := h.s.RemoveContexts(h.ctx, r)
			h.ok(err)
			sizes, r.After, more = append(sizes, did.Contexts), did.Next, did.More
		}
		if !slices.Equal(sizes, []int64{10, 10, 5}) {
			h.Errorf("batches of %v", sizes)
		}
		left, _, err := h.s.Contexts(h.ctx, bloom.ContextQuery{})
		h.ok(err)
		same(h, "contexts left", len(left), 5)
	},
	"deleted contexts are listed for a while": func(h *harness) {
		h.worker("w", 4)
		for _, id := range []string{"a", "b", "c"} {
			h.spoken(id, "file:"+id)
			h.ok(h.s.ForgetContext(h.ctx, id, "me"))
			h.advance(time.Minute)
		}
		notes := func(r contract.RemoveRequest) (contract.Removed, error) { return h.s.RemoveForgotten(h.ctx, r) }
		h.advance(kept - 3*time.Minute)
		h.remove(notes, 2)
		ids, last := h.forgotten(0)
		same(h, "listed before they expire", fmt.Sprint(ids), "[a b c]")
		h.advance(time.Minute + time.Millisecond)
		h.remove(notes, 1)
		ids, _ = h.forgotten(0)
		same(h, "listed later", fmt.Sprint(ids), "[c]")
		h.advance(long)
		h.remove(notes, 2)
		ids, _ = h.forgotten(0)
		same(h, "listed at the end", len(ids), 0)
		h.worker("w", 4)
		h.spoken("d", "file:d")
		h.ok(h.s.ForgetContext(h.ctx, "d", "me"))
		ids, _ = h.forgotten(last)
		same(h, "the numbers go on", fmt.Sprint(ids), "[d]")
	},
	"either a new task or the deletion comes first": func(h *harness) {
		h.worker("w", 32)
		const contexts = 30
		for i := range contexts {
			h.spoken(fmt.Sprint("c", i), fmt.Sprint("file:", i))
		}
		h.advance(long)
		var posted sync.Map
		together(6, func(who int) {
			for i := range contexts {
				if who < 3 {
					if _, err := h.s.RemoveContexts(h.ctx, contract.RemoveRequest{OlderThan: kept, Limit: 4}); err != nil {
						h.Error(err)
					}
					continue
				}
				if i%4 != who-3 { // the rest is deleted
					continue
				}
				if _, _, err := h.s.CreateTask(h.ctx, newTask(inContext(fmt.Sprint("c", i)))); err != nil {
					h.Error(err)
				}
				posted.Store(i, true)
			}
		})
		h.removeContexts(0)
		for i := range contexts {
			x, err := h.s.Context(h.ctx, fmt.Sprint("c", i))
			if _, there := posted.Load(i); !there {
				h.refused(err, bloom.ErrContextNotFound)
			} else if err != nil || x.Unfinished != 1 {
				h.Errorf("context %d with a new task is %+v, %v", i, x, err)
			}
		}
	},
}
