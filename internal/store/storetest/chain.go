package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/audit"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

// chainedWithin bounds the chaining of all entries of an idle store, on a machine that
// runs other tests.
const chainedWithin = 30 * time.Second

// awaitChained waits until all entries are chained.
func awaitChained(ctx context.Context, s contract.Store) error {
	for end := time.Now().Add(chainedWithin); ; {
		if _, err := s.Seal(ctx); err != nil {
			return err
		}
		lag, err := s.AuditLag(ctx)
		if err != nil || lag.Unchained == 0 {
			return err
		}
		if time.Now().After(end) {
			return fmt.Errorf("after %s entries of the audit are not chained", chainedWithin)
		}
	}
}

// chain checks that every audit entry is chained to the previous one. A server may add
// and remove entries meanwhile, so the chain must agree with one of two lists around it.
func (c *checker) chain() {
	for end := time.Now().Add(chainedWithin); ; time.Sleep(5 * time.Millisecond) {
		before := c.audits
		v, err := audit.Verify(c.ctx, c.s, nil)
		if err == nil && v.Unchained == 0 && v.Entries == before {
			return
		}
		entries, listErr := c.listAudit()
		c.audits = int64(len(entries))
		switch {
		case err != nil || listErr != nil:
			c.try(errors.Join(err, listErr))
		case v.Unchained == 0 && v.Entries == c.audits:
		case time.Now().Before(end):
			continue
		case v.Unchained > 0:
			c.wrong("after %s entries of the audit are not chained", chainedWithin)
		default:
			c.wrong("the audit has %d entries, of which %d are chained", c.audits, v.Entries)
		}
		return
	}
}

var chainTests = map[string]func(*harness){
	"every entry is chained, from any caller": func(h *harness) {
		var all sync.WaitGroup
		for w := range 8 {
			all.Go(func() { h.entries(fmt.Sprint(w), 25) })
		}
		all.Wait()
		h.ok(awaitChained(h.ctx, h.s))
		v, err := audit.Verify(h.ctx, h.s, nil)
		h.ok(err)
		same(h, "chained", v.Entries, 200)
		list, _, err := h.s.Audit(h.ctx, bloom.AuditQuery{Page: bloom.Page{Limit: 1}})
		h.ok(err)
		same(h, "the newest one's hash", list[0].Hash, v.Last().Hash)
		head, err := h.s.AuditHead(h.ctx)
		h.ok(err)
		same(h, "the head", head, v.Last())
	},
	"the chain can be verified after retention": func(h *harness) {
		h.worker("w", 8)
		for range 4 { // retention removes ended tasks between queued ones
			task := h.create()
			h.complete(success(task.ID, h.lease(task.ID, "w").ID, "text"))
			h.create()
			h.entries("old", 3)
		}
		for range 3 {
			h.advance(2 * kept)
			removed := h.removeAudit()
			v, err := audit.Verify(h.ctx, h.s, nil)
			h.ok(err)
			if removed.Audit > 0 && removed.UpTo == 0 {
				h.Errorf("removed %+v, which does not say up to where", removed)
			}
			if v.Entries < 5 {
				h.Errorf("%d entries are left, want those of the four tasks that wait, and the newest", v.Entries)
			}
			h.entries("new", 2)
		}
	},
	"retention keeps entries that are not exported yet": func(h *harness) {
		h.entries("old", 5)
		h.ok(awaitChained(h.ctx, h.s))
		_, _, links, err := h.s.AuditLinks(h.ctx, 0, 3)
		h.ok(err)
		h.advance(2 * kept)
		h.entries("new", 1)
		r := contract.RemoveRequest{OlderThan: kept, Exported: true}
		did, err := h.s.RemoveAudit(h.ctx, r)
		h.ok(err)
		same(h, "removed before anything is exported", did.Audit, 0)
		h.ok(h.s.SetAuditExport(h.ctx, contract.AuditExport{}, contract.AuditExport{Exported: links[2].Seq, Hash: links[2].Hash}))
		did, err = h.s.RemoveAudit(h.ctx, r)
		h.ok(err)
		same(h, "removed of what is exported", did.Audit, 3)
		did, err = h.s.RemoveAudit(h.ctx, contract.RemoveRequest{OlderThan: kept})
		h.ok(err)
		same(h, "removed where nothing is to be exported", did.Audit, 2)
	},
	"an export's position changes only by compare-and-set": func(h *harness) {
		was, err := h.s.AuditExport(h.ctx)
		h.ok(err)
		same(h, "at first", was, contract.AuditExport{})
		is := contract.AuditExport{Exported: 3, Hash: "x", Planned: 9}
		h.ok(h.s.SetAuditExport(h.ctx, was, is))
		if err := h.s.SetAuditExport(h.ctx, was, contract.AuditExport{}); bloom.KindOf(err) != bloom.KindConflict {
			h.Errorf("another one who knew the old place got %v", err)
		}
		was, err = h.s.AuditExport(h.ctx)
		h.ok(err)
		same(h, "then", was, is)
	},
	"an export's place is set beside operations that find out what else they read": func(h *harness) {
		ids := make([]string, 8)
		for i := range ids {
			ids[i] = h.create().ID
		}
		var was contract.AuditExport
		for round := range 10 {
			for _, id := range ids {
				_, err := h.s.Cancel(h.ctx, id, "me")
				h.ok(err)
			}
			is := contract.AuditExport{Exported: int64(round + 1), Hash: "x"}
			var callers sync.WaitGroup
			for i, id := range ids {
				if i == len(ids)/2 {
					callers.Go(func() {
						if err := h.s.SetAuditExport(h.ctx, was, is); err != nil {
							h.Errorf("nobody else sets it, but: %v", err)
						}
					})
				}
				callers.Go(func() {
					if _, err := h.s.Requeue(h.ctx, id, "me"); err != nil {
						h.Error(err)
					}
				})
			}
			callers.Wait()
			now, err := h.s.AuditExport(h.ctx)
			h.ok(err)
			same(h, "the place", now, is)
			was = is
		}
	},
}

// entries appends audit entries without a change. Safe for concurrent use.
func (h *harness) entries(id string, n int) {
	for i := range n {
		err := h.s.AppendAudit(h.ctx, bloom.Audit{Action: "test", EntityType: "test", EntityID: id, Actor: "é\n\"\\\u2028<", Detail: fmt.Sprint(i), Data: []byte("{\"a\" : 1.0}")})
		if err != nil && !errors.Is(err, context.Canceled) {
			h.Error(err)
		}
	}
}
