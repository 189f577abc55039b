package storetest

import (
	"maps"

	"github.com/bloom-runtime/bloom"
)

var recordTests = map[string]func(*harness){
	"settings are written with their audit entry": func(h *harness) {
		got, err := h.s.Settings(h.ctx)
		h.ok(err)
		same(h, "settings at first", len(got), 0)
		entry := bloom.Audit{Action: bloom.ActionConfigUpdated, EntityType: bloom.EntityConfig, EntityID: "membridge", Actor: "me", Detail: "d"}
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
	"an entry of its own is appended": func(h *harness) {
		h.ok(h.s.AppendAudit(h.ctx, bloom.Audit{
			Action: bloom.ActionLogin, EntityType: "user", EntityID: "ann", Actor: "ann", Detail: "Signed in", Data: []byte(`{"from":"here"}`),
		}))
		got, _, err := h.s.Audit(h.ctx, bloom.AuditQuery{Action: bloom.ActionLogin})
		h.ok(err)
		if len(got) != 1 || got[0].ID == "" || got[0].Seq == 0 || got[0].Timestamp != h.now() || string(bloom.MustJSON(got[0].Data)) != `{"from":"here"}` {
			h.Errorf("audit: %+v", got)
		}
	},
	"an empty store": func(h *harness) {
		st, err := h.s.Stats(h.ctx)
		h.ok(err)
		if st.Tasks.Total != 0 || st.Tasks.ByStatus == nil || st.Leases.Total != 0 || st.Workers.Total != 0 {
			h.Errorf("stats %+v", st)
		}
		h.reap(bloom.Reaped{})
	},
}
