package storetest

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"sync"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/audit"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

func newKey(id string, change func(*contract.StoredKey)) contract.StoredKey {
	sum := sha256.Sum256([]byte(id))
	k := contract.StoredKey{APIKey: bloom.APIKey{ID: id, Name: "of " + id, Role: bloom.RoleClient}, Digest: hex.EncodeToString(sum[:])}
	if change != nil {
		change(&k)
	}
	return k
}

const life = time.Hour

var accessTests = map[string]func(*harness){
	"a key is created once, listed and read": func(h *harness) {
		any, err := h.s.AnyKey(h.ctx)
		h.ok(err)
		same(h, "any key at first", any, false)
		ctx := audit.WithCaller(h.ctx, audit.Caller{KeyID: "RUNTIME_API_KEY", Address: "192.0.2.7"})
		expires := h.now() + 1000
		spec := newKey("k1", func(k *contract.StoredKey) {
			k.Role, k.WorkerID, k.ExpiresAt = bloom.RoleWorker, new("node-1"), &expires
		})
		for range 2 { // the second repeats the first
			k, err := h.s.CreateKey(ctx, spec, "ann")
			h.ok(err)
			if k.ID != "k1" || k.Name != "of k1" || k.Role != bloom.RoleWorker || *k.WorkerID != "node-1" || *k.ExpiresAt != expires ||
				k.CreatedBy != "ann" || k.CreatedAt != h.now() || k.LastUsedAt != nil || k.RevokedAt != nil || k.Status != bloom.KeyActive {
				h.Errorf("created: %+v", k)
			}
		}
		_, err = h.s.CreateKey(ctx, newKey("k1", func(k *contract.StoredKey) { k.Digest = newKey("k2", nil).Digest }), "ann")
		same(h, "the id with another digest", bloom.KindOf(err), bloom.KindConflict)
		_, err = h.s.CreateKey(ctx, newKey("k2", nil), "ann")
		h.ok(err)
		h.advance(2 * time.Second)
		keys, _, err := h.s.Keys(h.ctx, bloom.Page{})
		h.ok(err)
		if len(keys) != 2 || keys[0].ID != "k2" || keys[0].Status != bloom.KeyActive || keys[1].ID != "k1" || keys[1].Status != bloom.KeyExpired {
			h.Errorf("keys: %+v", keys)
		}
		known, err := h.s.Key(h.ctx, "k1")
		h.ok(err)
		same(h, "digest", known.Digest, spec.Digest)
		_, err = h.s.Key(h.ctx, "k3")
		same(h, "an unknown key", bloom.KindOf(err), bloom.KindNotFound)
		any, err = h.s.AnyKey(h.ctx)
		h.ok(err)
		same(h, "any key", any, true)
		entries, _, err := h.s.Audit(h.ctx, bloom.AuditQuery{EntityID: "k1"})
		h.ok(err)
		if len(entries) != 1 || entries[0].Action != audit.ActionKeyCreated || entries[0].Actor != "ann" || entries[0].KeyID != "RUNTIME_API_KEY" || entries[0].Address != "192.0.2.7" {
			h.Errorf("audit: %+v", entries)
		}
	},
	"a key is revoked once and its sessions end": func(h *harness) {
		_, err := h.s.CreateKey(h.ctx, newKey("k1", nil), "ann")
		h.ok(err)
		for id, key := range map[string]string{"s1": "k1", "s2": "k1", "s3": "k2"} {
			_, err := h.s.CreateSession(h.ctx, bloom.BrowserSession{ID: id, Name: "n", Role: bloom.RoleClient, KeyID: &key}, life, "n")
			h.ok(err)
		}
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				k, err := h.s.RevokeKey(h.ctx, "k1", "bob")
				if err != nil || k.Status != bloom.KeyRevoked || k.RevokedAt == nil {
					h.Errorf("revoked: %+v, %v", k, err)
				}
			})
		}
		all.Wait()
		same(h, "audited", len(h.actions("k1")), 2)
		_, err = h.s.RevokeKey(h.ctx, "k9", "bob")
		same(h, "an unknown key", bloom.KindOf(err), bloom.KindNotFound)
		left, _, err := h.s.Sessions(h.ctx, bloom.Page{})
		h.ok(err)
		if len(left) != 1 || left[0].ID != "s3" {
			h.Errorf("sessions left: %+v", left)
		}
	},
	"the time of last use never decreases": func(h *harness) {
		_, err := h.s.CreateKey(h.ctx, newKey("k1", nil), "ann")
		h.ok(err)
		x, err := h.s.CreateSession(h.ctx, bloom.BrowserSession{ID: "s1", Name: "n", Role: bloom.RoleViewer}, life, "n")
		h.ok(err)
		at := x.LastUsedAt + 5000
		h.ok(h.s.NoteUse(h.ctx, map[string]int64{"k1": at, "gone": at}, map[string]int64{"s1": at, "gone": at}))
		h.ok(h.s.NoteUse(h.ctx, map[string]int64{"k1": at - 1}, map[string]int64{"s1": at - 1}))
		k, err := h.s.Key(h.ctx, "k1")
		h.ok(err)
		x, err = h.s.Session(h.ctx, "s1")
		h.ok(err)
		if k.LastUsedAt == nil || *k.LastUsedAt != at || x.LastUsedAt != at {
			h.Errorf("last used: %v, %v, want %d", k.LastUsedAt, x.LastUsedAt, at)
		}
	},
	"one of many concurrent calls renews a session; a session can be ended": func(h *harness) {
		was, err := h.s.CreateSession(h.ctx, bloom.BrowserSession{ID: "s1", Name: "ann", Role: bloom.RoleAdmin, Address: "192.0.2.7", Agent: "curl"}, life, "ann")
		h.ok(err)
		if was.Turn != 1 || was.TurnedAt != h.now() || was.ExpiresAt != h.now()+life.Milliseconds() || was.Address != "192.0.2.7" || was.Agent != "curl" || was.KeyID != nil {
			h.Errorf("created: %+v", was)
		}
		h.advance(life / 2)
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				x, err := h.s.RenewSession(h.ctx, "s1", 1, life)
				if err != nil || x.Turn != 2 || x.ExpiresAt != was.ExpiresAt+(life/2).Milliseconds() {
					h.Errorf("renewed: %+v, %v", x, err)
				}
			})
		}
		all.Wait()
		h.advance(time.Minute)
		if x, err := h.s.RenewSession(h.ctx, "s1", 1, life); err != nil || x.Turn != 2 || x.ExpiresAt != was.ExpiresAt+(life/2).Milliseconds() {
			h.Errorf("renewed by an earlier turn: %+v, %v", x, err)
		}
		h.ok(h.s.EndSession(h.ctx, "s1", "bob"))
		_, err = h.s.Session(h.ctx, "s1")
		same(h, "read after its end", bloom.KindOf(err), bloom.KindNotFound)
		if _, err = h.s.RenewSession(h.ctx, "s1", 2, life); !errors.Is(err, bloom.NotFound("Session")) {
			h.Errorf("renewed after its end: %v", err)
		}
		same(h, "ended again", bloom.KindOf(h.s.EndSession(h.ctx, "s1", "bob")), bloom.KindNotFound)
		same(h, "audited", len(h.actions("s1")), 2)
	},
	"expired sessions are hidden, and removed": func(h *harness) {
		_, err := h.s.CreateSession(h.ctx, bloom.BrowserSession{ID: "s1", Name: "n", Role: bloom.RoleViewer}, life, "n")
		h.ok(err)
		h.advance(life)
		left, _, err := h.s.Sessions(h.ctx, bloom.Page{})
		h.ok(err)
		same(h, "shown", len(left), 0)
		_, err = h.s.RenewSession(h.ctx, "s1", 1, life)
		same(h, "renewed", bloom.KindOf(err), bloom.KindNotFound)
		_, err = h.s.CreateSession(h.ctx, bloom.BrowserSession{ID: "s2", Name: "n", Role: bloom.RoleViewer}, life, "n")
		h.ok(err)
		_, err = h.s.Session(h.ctx, "s1")
		same(h, "read", bloom.KindOf(err), bloom.KindNotFound)
	},
}
