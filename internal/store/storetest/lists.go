package storetest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/audit"
	"github.com/bloom-runtime/bloom/internal/storable"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

// walk lists tasks page by page, and calls between after each page.
func (h *harness) walk(q bloom.TaskQuery, between func()) (ids []string) {
	h.Helper()
	for range 1000 {
		tasks, next, err := h.s.Tasks(h.ctx, q)
		h.ok(err)
		if len(tasks) > q.Limit {
			h.Fatalf("a page of %d for a limit of %d", len(tasks), q.Limit)
		}
		for _, t := range tasks {
			ids = append(ids, t.ID)
		}
		if next == (bloom.Cursor{}) {
			return ids
		}
		q.Cursor = next
		between()
	}
	h.Fatal("the list does not end")
	return nil
}

var listTests = map[string]func(*harness){
	"long texts are truncated and marked if a page requests it": func(h *harness) {
		long := strings.Repeat("\u00e9", 5000)
		task := h.create(func(n *contract.NewTask) { n.Spec.Prompt, n.Spec.ContextHints = long, []string{long, "b"} })
		h.create(func(n *contract.NewTask) { n.Spec.Prompt, n.Spec.ContextHints = "short", []string{"a"} })
		for _, most := range []int{1, 1023, 1024, 1025, 4001} {
			tasks, _, err := h.s.Tasks(h.ctx, bloom.TaskQuery{Page: bloom.Page{TextBytes: most}})
			h.ok(err)
			same(h, "short prompt", tasks[0].PromptTruncated, most < 5)
			same(h, "short hints", len(tasks[0].ContextHints), 1)
			cut := tasks[1]
			same(h, "marked", cut.PromptTruncated && cut.HintsTruncated && cut.ContextHints != nil, true)
			same(h, "prompt", cut.Prompt, long[:most/2*2])
			same(h, "hints", len(cut.ContextHints), 0)
		}
		for _, most := range []int{0, 2 * 10_100} {
			tasks, _, err := h.s.Tasks(h.ctx, bloom.TaskQuery{Page: bloom.Page{TextBytes: most}})
			h.ok(err)
			same(h, "whole", string(storable.MustJSON(tasks[1])), string(storable.MustJSON(task)))
		}
	},
	"a page of events ends at its size limit": func(h *harness) {
		h.worker("w", 1)
		task := h.create()
		lease := h.lease(task.ID, "w")
		text := strings.Repeat("e", contract.MaxEventPageBytes/4)
		for i := range 10 {
			_, err := h.s.AppendEvents(h.ctx, task.ID, lease.ID, []bloom.WorkerEvent{{Seq: int64(i + 1), Type: "text", Data: storable.MustJSON(map[string]string{"text": text})}})
			h.ok(err)
		}
		seq, pages := int64(0), 0
		for ; ; pages++ {
			events, err := h.s.Events(h.ctx, task.ID, seq, 1000)
			h.ok(err)
			if len(events) == 0 {
				break
			}
			size := 0
			for _, e := range events {
				size += len(e.Data)
				same(h, "number", e.Seq, seq+1)
				seq = e.Seq
			}
			if size > contract.MaxEventPageBytes+len(text)+100 {
				h.Errorf("a page of %d bytes", size)
			}
		}
		if pages < 3 || seq < 11 {
			h.Errorf("%d events on %d pages", seq, pages)
		}
	},
	"a lease is found under its task only": func(h *harness) {
		h.worker("w", 2)
		task, other := h.create(), h.create()
		lease := h.lease(task.ID, "w")
		got, err := h.s.Lease(h.ctx, task.ID, lease.ID)
		h.ok(err)
		same(h, "lease", got.ID+got.TaskID, lease.ID+task.ID)
		for _, ids := range [][2]string{{other.ID, lease.ID}, {task.ID, newID()}, {"none", lease.ID}, {task.ID, "none"}} {
			_, err := h.s.Lease(h.ctx, ids[0], ids[1])
			h.refused(err, bloom.ErrLeaseLost)
		}
	},
	"pages are stable while tasks are added": func(h *harness) {
		var want []string
		for range 23 {
			want = append(want, h.create().ID)
		}
		slices.Reverse(want)
		got := h.walk(bloom.TaskQuery{Page: bloom.Page{Limit: 5}}, func() { h.create() })
		if !slices.Equal(got, want) {
			h.Errorf("walked %d tasks, want the %d that were there", len(got), len(want))
		}
	},
	"a page that ends the list has no next": func(h *harness) {
		for range 4 {
			h.create()
		}
		for _, limit := range []int{4, 2} {
			same(h, "walked", len(h.walk(bloom.TaskQuery{Page: bloom.Page{Limit: limit}}, func() {})), 4)
		}
		_, next, err := h.s.Tasks(h.ctx, bloom.TaskQuery{Page: bloom.Page{Limit: 4}})
		h.ok(err)
		same(h, "next", next, bloom.Cursor{})
	},
	"every filter, alone and combined": func(h *harness) {
		h.worker("w", 32)
		h.worker("v", 32)
		type made struct{ context, agent, worker, status, class, id string }
		var all []made
		for i := range 48 {
			m := made{context: fmt.Sprint("c", i%2), agent: fmt.Sprint("a", i%3), worker: []string{"w", "v"}[i/2%2], status: "queued"}
			task := h.create(inContext(m.context), func(n *contract.NewTask) { n.Spec.AgentSlug = m.agent })
			m.id = task.ID
			switch i / 4 % 4 {
			case 0:
				m.worker = ""
			case 1:
				h.lease(task.ID, m.worker)
				m.status = "leased"
			case 2:
				h.finish(task.ID, m.worker)
				m.status = "completed"
			case 3:
				m.class = []string{bloom.ClassCrashed, bloom.ClassInvalidInput}[i%2]
				end := failure(task.ID, h.lease(task.ID, m.worker).ID, "no", false)
				end.Completion.ErrorClass = m.class
				h.complete(end)
				m.status = "failed"
			}
			all = append(all, m)
		}
		for mask := range 32 {
			q := bloom.TaskQuery{Page: bloom.Page{Limit: 3}}
			if mask&16 != 0 {
				q.Error = bloom.ClassInvalidInput
			}
			if mask&1 != 0 {
				q.ContextID = "c1"
			}
			if mask&2 != 0 {
				q.AgentSlug = "a2"
			}
			if mask&4 != 0 {
				q.WorkerID = "v"
			}
			statuses := []bloom.TaskStatus{""}
			if mask&8 != 0 {
				statuses = bloom.TaskStatuses
			}
			for _, status := range statuses {
				q.Status = status
				var want []string
				for _, m := range slices.Backward(all) {
					if (q.ContextID == "" || m.context == q.ContextID) && (q.AgentSlug == "" || m.agent == q.AgentSlug) &&
						(q.WorkerID == "" || m.worker == q.WorkerID) && (q.Error == "" || m.class == q.Error) && (status == "" || m.status == string(status)) {
						want = append(want, m.id)
					}
				}
				if got := h.walk(q, func() {}); !slices.Equal(got, want) {
					h.Errorf("%+v: walked %d, want %d", q, len(got), len(want))
				}
			}
		}
	},
	"walking leases by every mix of filters": func(h *harness) {
		h.worker("w", 32)
		h.worker("v", 32)
		var all []bloom.Lease
		add := func(task, worker string, end func(bloom.Lease)) {
			l := h.lease(task, worker)
			all = append(all, l)
			end(l)
		}
		release := func(l bloom.Lease) {
			_, err := h.s.Release(h.ctx, l.TaskID, bloom.ReleaseSpec{LeaseID: l.ID}, "me")
			h.ok(err)
		}
		often, once := h.create(), h.create()
		for i := range 9 {
			add(often.ID, []string{"w", "v"}[i%2], release)
		}
		add(once.ID, "v", func(l bloom.Lease) { h.complete(success(once.ID, l.ID, "done")) })
		add(often.ID, "w", func(bloom.Lease) {})
		for mask := range 8 {
			q := bloom.LeaseQuery{Page: bloom.Page{Limit: 2}}
			if mask&1 != 0 {
				q.TaskID = often.ID
			}
			if mask&2 != 0 {
				q.WorkerID = "v"
			}
			statuses := []bloom.LeaseStatus{""}
			if mask&4 != 0 {
				statuses = []bloom.LeaseStatus{bloom.LeaseActive, bloom.LeaseReleased, bloom.LeaseExpired}
			}
			for _, q.Status = range statuses {
				var want, got []string
				for i, l := range slices.Backward(all) {
					status := bloom.LeaseReleased
					if i == len(all)-1 {
						status = bloom.LeaseActive
					}
					if (q.TaskID == "" || l.TaskID == q.TaskID) && (q.WorkerID == "" || l.WorkerID == q.WorkerID) && (q.Status == "" || q.Status == status) {
						want = append(want, l.ID)
					}
				}
				for {
					leases, next, err := h.s.Leases(h.ctx, q)
					h.ok(err)
					for _, l := range leases {
						got = append(got, l.ID)
					}
					if q.Cursor = next; next == (bloom.Cursor{}) {
						break
					}
				}
				if q.Cursor = (bloom.Cursor{}); !slices.Equal(got, want) {
					h.Errorf("%+v: walked %d, want %d", q, len(got), len(want))
				}
			}
		}
		none, _, err := h.s.Leases(h.ctx, bloom.LeaseQuery{TaskID: "no id"})
		h.ok(err)
		if len(none) != 0 || none == nil {
			h.Errorf("leases of what is no id: %v", none)
		}
	},
	"tasks, artifacts and contexts by the end of their id": func(h *harness) {
		h.worker("w", 9)
		first, second := h.create(func(n *contract.NewTask) { n.Spec.ContextID = "a-context-12345678" }), h.create()
		c := h.finish(first.ID, "w")
		short := func(id string) string { return id[len(id)-8:] }
		for _, q := range []bloom.TaskQuery{{ShortID: short(second.ID)}, {ShortID: short(second.ID), Status: second.Status, ContextID: second.ContextID}} {
			tasks, _, err := h.s.Tasks(h.ctx, q)
			h.ok(err)
			if len(tasks) != 1 || tasks[0].ID != second.ID {
				h.Errorf("%+v: %+v", q, tasks)
			}
		}
		artifacts, _, err := h.s.Artifacts(h.ctx, bloom.ArtifactQuery{ShortID: short(c.Artifact.ID)})
		h.ok(err)
		if len(artifacts) != 1 || artifacts[0].ID != c.Artifact.ID {
			h.Errorf("artifacts: %+v", artifacts)
		}
		contexts, _, err := h.s.Contexts(h.ctx, bloom.ContextQuery{ShortID: short(first.ContextID)})
		h.ok(err)
		if len(contexts) != 1 || contexts[0].ID != first.ContextID {
			h.Errorf("contexts: %+v", contexts)
		}
		none, _, err := h.s.Tasks(h.ctx, bloom.TaskQuery{ShortID: "no end"})
		h.ok(err)
		same(h, "tasks without such an end", len(none), 0)
	},
	"tasks by when they were created, with when their attempt began": func(h *harness) {
		h.worker("w", 9)
		var ids []string // newest first
		var at []int64
		for range 5 {
			task := h.create()
			ids, at = slices.Insert(ids, 0, task.ID), append(at, task.CreatedAt)
			h.advance(time.Second)
		}
		for _, c := range []struct {
			since, until int64
			want         []string
		}{{at[3], 0, ids[:2]}, {0, at[1], ids[4:]}, {at[1], at[3], ids[2:4]}, {at[2] - 1, at[2] + 1, ids[2:3]}, {1, 0, ids}, {at[4] + 1, 0, nil}, {0, at[0], nil}, {at[3], at[1], nil}} {
			for _, q := range []bloom.TaskQuery{{}, {AgentSlug: h.task(ids[0]).AgentSlug}, {Status: bloom.TaskQueued}} {
				q.Since, q.Until, q.Page = c.since, c.until, bloom.Page{Limit: 2}
				if got := h.walk(q, func() {}); !slices.Equal(got, c.want) {
					h.Errorf("%+v: %v, want %v", q, got, c.want)
				}
			}
		}
		l := h.lease(ids[0], "w")
		tasks, _, err := h.s.Tasks(h.ctx, bloom.TaskQuery{Page: bloom.Page{Limit: 2}})
		h.ok(err)
		if len(tasks) != 2 || tasks[0].StartedAt != l.StartedAt || tasks[1].StartedAt != 0 {
			h.Errorf("started: %+v, leased at %d", tasks, l.StartedAt)
		}
	},
	"tasks by the labels that they require": func(h *harness) {
		both, odd := h.create(labelled("gpu", "eu")), h.create(labelled(`a"b`, "gpux"))
		h.create()
		for _, c := range []struct {
			labels []string
			want   []string
		}{{[]string{"gpu"}, []string{both.ID}}, {[]string{"eu", "gpu"}, []string{both.ID}}, {[]string{`a"b`}, []string{odd.ID}}, {[]string{"b"}, nil}, {[]string{"gpu", "gpux"}, nil}} {
			for _, q := range []bloom.TaskQuery{{Labels: c.labels}, {Labels: c.labels, Status: bloom.TaskQueued, ContextID: both.ContextID}} {
				q.Page = bloom.Page{Limit: 5}
				if got := h.walk(q, func() {}); !slices.Equal(got, c.want) {
					h.Errorf("%+v: %v", q, got)
				}
			}
		}
	},
	"leases by status, artifacts by task and type, audit by action": func(h *harness) {
		h.worker("w", 9)
		done, active := h.create(), h.create()
		c := h.finish(done.ID, "w")
		l := h.lease(active.ID, "w")
		for status, want := range map[bloom.LeaseStatus]int{"": 2, bloom.LeaseActive: 1, bloom.LeaseReleased: 1, bloom.LeaseExpired: 0} {
			got, _, err := h.s.Leases(h.ctx, bloom.LeaseQuery{Status: status})
			h.ok(err)
			if len(got) != want || got == nil {
				h.Errorf("%d leases are %q, want %d", len(got), status, want)
			}
			if status == "" && got[0].ID != l.ID {
				h.Error("leases are not newest first")
			}
		}
		artifacts, _, err := h.s.Artifacts(h.ctx, bloom.ArtifactQuery{TaskID: done.ID})
		h.ok(err)
		if len(artifacts) != 1 || artifacts[0].ID != c.Artifact.ID {
			h.Errorf("artifacts: %+v", artifacts)
		}
		for kind, want := range map[string]int{c.Artifact.Type: 1, "another": 0} {
			for _, task := range []string{"", done.ID} {
				artifacts, _, err = h.s.Artifacts(h.ctx, bloom.ArtifactQuery{TaskID: task, Type: kind})
				h.ok(err)
				same(h, "artifacts of type "+kind, len(artifacts), want)
			}
		}
		artifacts, _, err = h.s.Artifacts(h.ctx, bloom.ArtifactQuery{TaskID: active.ID})
		h.ok(err)
		if len(artifacts) != 0 || artifacts == nil {
			h.Errorf("artifacts: %+v", artifacts)
		}
		for _, q := range []bloom.AuditQuery{{Action: audit.ActionTaskLeased}, {Action: audit.ActionTaskLeased, EntityID: done.ID}} {
			got, _, err := h.s.Audit(h.ctx, q)
			h.ok(err)
			want := 2
			if q.EntityID != "" {
				want = 1
			}
			same(h, "audited", len(got), want)
		}
	},
}
