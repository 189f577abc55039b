package storetest

import (
	"fmt"
	"maps"
	"sync"
	"sync/atomic"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/audit"
	"github.com/bloom-runtime/bloom/internal/storable"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

var recordTests = map[string]func(*harness){
	"settings are written with their audit entry": func(h *harness) {
		got, err := h.s.Settings(h.ctx)
		h.ok(err)
		same(h, "settings at first", len(got), 0)
		entry := bloom.Audit{Action: audit.ActionConfigUpdated, EntityType: audit.EntityConfig, EntityID: "membridge", Actor: "me", Detail: "d"}
		h.ok(h.s.PutSettings(h.ctx, map[string]string{"a": "1", "b": "2"}, entry))
		h.ok(h.s.PutSettings(h.ctx, map[string]string{"b": "3"}, entry))
		got, err = h.s.Settings(h.ctx)
		h.ok(err)
		if want := map[string]string{"a": "1", "b": "3"}; !maps.Equal(got, want) {
			h.Errorf("settings %v, want %v", got, want)
		}
		h.ok(h.s.PutSettings(h.ctx, map[string]string{"a": "", "none": ""}, entry))
		got, err = h.s.Settings(h.ctx)
		h.ok(err)
		if want := map[string]string{"b": "3"}; !maps.Equal(got, want) {
			h.Errorf("settings %v after one was removed, want %v", got, want)
		}
		same(h, "audited", len(h.actions("membridge")), 3)
	},
	"an audit entry without a change is appended": func(h *harness) {
		h.ok(h.s.AppendAudit(h.ctx, bloom.Audit{
			Action: audit.ActionLogin, EntityType: "user", EntityID: "ann", Actor: "ann", Detail: "Signed in", Data: []byte(`{"from":"here"}`),
		}))
		got, _, err := h.s.Audit(h.ctx, bloom.AuditQuery{Action: audit.ActionLogin})
		h.ok(err)
		if len(got) != 1 || got[0].ID == "" || got[0].Seq == 0 || got[0].Timestamp != h.now() || string(storable.MustJSON(got[0].Data)) != `{"from":"here"}` {
			h.Errorf("audit: %+v", got)
		}
	},
	"content is moved in one step": func(h *harness) {
		h.worker("w", 8)
		task := h.create()
		r := success(task.ID, h.lease(task.ID, "w").ID, "text")
		r.PendingUpload = true
		done := h.complete(r)
		other := h.finish(h.create().ID, "w")
		id, first, second := done.Artifact.ID, "file:artifacts/x", "minio://bucket/artifacts/x"
		displaced := func(want int) {
			h.Helper()
			list, _, err := h.s.Artifacts(h.ctx, bloom.ArtifactQuery{PendingUpload: true})
			h.ok(err)
			same(h, "displaced artifacts", len(list), want)
			waiting, err := h.s.WaitingContent(h.ctx)
			h.ok(err)
			same(h, "what waits to be moved", waiting, int64(want))
		}
		displaced(1)
		h.refused(h.s.MoveArtifact(h.ctx, id, &second, first), bloom.Conflict(""))
		h.ok(h.s.MoveArtifact(h.ctx, id, nil, first))
		displaced(0)
		h.ok(h.s.MoveArtifact(h.ctx, id, nil, first)) // a repeat
		h.refused(h.s.MoveArtifact(h.ctx, id, nil, second), bloom.Conflict(""))
		h.ok(h.s.MoveArtifact(h.ctx, id, &first, second))
		a, err := h.s.Artifact(h.ctx, id)
		h.ok(err)
		if a.Content != nil || a.URL == nil || *a.URL != second || a.Size != done.Artifact.Size || a.SHA256 != done.Artifact.SHA256 {
			h.Errorf("moved to %+v", a)
		}
		if left, err := h.s.Artifact(h.ctx, other.Artifact.ID); err != nil || left.Content == nil {
			h.Errorf("its neighbour is %+v, %v", left, err)
		}
		again := h.complete(r)
		same(h, "the same completion again is a replay", again.Replayed, true)
		h.refused(h.s.MoveArtifact(h.ctx, task.ID, nil, first), bloom.NotFound("Artifact"))
		// Of many concurrent moves to different places one wins.
		var wg sync.WaitGroup
		var won atomic.Int64
		for i := range 8 {
			wg.Go(func() {
				if h.s.MoveArtifact(h.ctx, id, &second, fmt.Sprintf("minio://bucket/%d", i)) == nil {
					won.Add(1)
				}
			})
		}
		wg.Wait()
		same(h, "movers that won", won.Load(), 1)
	},
	"an empty store": func(h *harness) {
		st, err := h.s.Stats(h.ctx)
		h.ok(err)
		if st.Tasks.Total != 0 || st.Tasks.ByStatus == nil || st.Leases.Total != 0 || st.Workers.Total != 0 {
			h.Errorf("stats %+v", st)
		}
		h.reap(contract.Reaped{})
	},
}
