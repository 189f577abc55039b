package audit_test

import (
	"encoding/json"
	"testing"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/audit"
)

// The chain must stay verifiable by later versions and by other programs: these bytes and this hash
// never change.
func TestTheCanonicalFormOfAnAuditEntryNeverChanges(t *testing.T) {
	t.Parallel()
	a := bloom.Audit{
		Seq: 7, ID: "01980000-0000-7000-8000-000000000001", Timestamp: 1772042245043, Action: "task_created", EntityType: "llm_task", EntityID: "é\u2028/<a>&",
		Actor: "a\"b\\c", KeyID: "", Address: "127.0.0.1", Detail: "x\n\ty\x01\x1f\x7f\b\f\r", Data: json.RawMessage("{\"b\": 1.0,\n\"a\":\"< >\"}"), Hash: "ignored",
	}
	const want = `{"seq":7,"id":"01980000-0000-7000-8000-000000000001","timestamp":1772042245043,"action":"task_created","entity_type":"llm_task",` +
		`"entity_id":"é` + "\u2028" + `/<a>&","actor":"a\"b\\c","key_id":"","address":"127.0.0.1","detail":"x\n\ty\u0001\u001f` + "\x7f" + `\b\f\r","data":{"b":1.0,"a":"< >"}}`
	if got := string(audit.Canonical(a)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if !json.Valid(audit.Canonical(a)) {
		t.Error("it is no JSON")
	}
	const hash = "020240301efee37ca789c33bd24c6fb74cd145191e1066a087f200a07d57cefd"
	if got := audit.Hash(audit.NoHash, audit.Canonical(a)); got != hash {
		t.Errorf("the hash is %s, want %s", got, hash)
	}
	for _, data := range []string{"", "null", "no JSON"} {
		a.Data = json.RawMessage(data)
		if !json.Valid(audit.Canonical(a)) {
			t.Errorf("with data %q it is no JSON: %s", data, audit.Canonical(a))
		}
	}
}

func BenchmarkChainHash(b *testing.B) {
	a := bloom.Audit{Seq: 7, ID: "01980000-0000-7000-8000-000000000001", Timestamp: 1772042245043, Action: "task_created", EntityType: "llm_task",
		EntityID: "01980000-0000-7000-8000-000000000001", Actor: "client", Address: "127.0.0.1", Detail: "Task created",
		Data: json.RawMessage(`{"status":"leased","epoch":1,"attempts":1,"lease_id":"01980000-0000-7000-8000-000000000001","worker_id":"w"}`)}
	h := audit.NoHash
	for b.Loop() {
		h = audit.Hash(h, audit.Canonical(a))
	}
}
