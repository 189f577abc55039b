package httpapi_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/auth"
	"github.com/bloom-runtime/bloom/internal/blob"
	"github.com/bloom-runtime/bloom/internal/dispatch"
	"github.com/bloom-runtime/bloom/internal/httpapi"
)

func TestSettingsAreKeptSealedAndShownMasked(t *testing.T) {
	t.Parallel()
	b := &bridge{health: json.RawMessage(`{"status":"ok"}`)}
	withBridge := func(d *dispatch.Config, _ *auth.Config, _ *httpapi.Config) {
		d.Membridge, d.MembridgeURL, d.MembridgeAdminKey = b, "http://127.0.0.1:8000", "tiny"
	}
	r := newFixture(t, withBridge)
	var set dispatch.Settings
	r.call(200, &set, "GET", "/config", "")
	if set.MembridgeURL != "http://127.0.0.1:8000" || set.AdminKeyMasked != "****" || set.LastTest != nil {
		t.Fatalf("from the environment: %+v", set)
	}
	const secret = "abcd-a-very-secret-key-wxyz"
	r.call(200, &set, "POST", "/config", `{"membridge_server_url":"http://bridge:8000/","admin_key":"`+secret+`"}`)
	if set.MembridgeURL != "http://bridge:8000" || set.AdminKeyMasked != "abcd****wxyz" || b.url != set.MembridgeURL || b.key != secret {
		t.Fatalf("saved: %+v, the client has %s", set, b.url)
	}
	var c dispatch.Connection
	r.call(200, &c, "POST", "/test-connection", "")
	if !c.Connected || string(c.Health) != `{"status":"ok"}` {
		t.Fatalf("tested: %+v", c)
	}
	b.health = nil
	a := r.call(200, &c, "POST", "/test-connection", "")
	if strings.Contains(string(a.body), "10.9.8.7") || !strings.Contains(string(a.body), `"connected":false`) {
		t.Fatalf("a failed test says %s", a.body)
	}
	var audit []bloom.Audit
	a = r.call(200, &audit, "GET", "/audit", "")
	if len(audit) != 3 || audit[2].Action != "config_updated" || audit[0].Action != "connection_test" || strings.Contains(string(a.body), secret) {
		t.Fatalf("audit: %s", a.body)
	}
	r.wantNoSecretOnDisk(secret)
	// Another service on the same store uses the saved settings, not its environment.
	other := &bridge{}
	sealer, err := auth.OpenSealer(filepath.Join(r.dir, auth.SealKeyFile))
	must(t, err)
	again, err := dispatch.New(t.Context(), dispatch.Config{Store: r.store, Blobs: noBlobs{}, Seal: sealer, Membridge: other, MembridgeURL: "http://env"})
	must(t, err)
	defer again.Close()
	if other.url != "http://bridge:8000" || other.key != secret || again.Settings().LastTest == nil {
		t.Fatalf("after a restart: %+v at %s", again.Settings(), other.url)
	}
}

type noBlobs struct{ blob.Blobs }

func (r *fixture) wantNoSecretOnDisk(secret string) {
	r.t.Helper()
	must(r.t, filepath.WalkDir(r.dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		raw, err := os.ReadFile(path)
		if strings.Contains(string(raw), secret) {
			r.t.Errorf("%s shows the secret", filepath.Base(path))
		}
		return err
	}))
}

func TestAConnectionTestTriesTheKey(t *testing.T) {
	t.Parallel()
	b := &bridge{health: json.RawMessage(`{"status":"ok"}`), refuses: &bloom.Error{Kind: bloom.KindUpstream, Code: bloom.CodeMembridgeForbidden, Message: "Membridge refused our key"}}
	r := newFixture(t, func(d *dispatch.Config, _ *auth.Config, _ *httpapi.Config) {
		d.Membridge, d.MembridgeURL, d.MembridgeAdminKey = b, "http://127.0.0.1:8000", "a-key-of-the-environment"
	})
	var found dispatch.Connection
	r.call(200, &found, "POST", "/test-connection", "")
	if found.Connected || !strings.Contains(found.Error, "the admin key in MEMBRIDGE_ADMIN_KEY: GET /projects was refused") {
		t.Errorf("with the environment's key: %+v", found)
	}
	r.call(200, nil, "POST", "/config", `{"membridge_server_url":"http://127.0.0.1:8000","admin_key":"a-key-that-was-saved"}`)
	r.call(200, &found, "POST", "/test-connection", "")
	if found.Connected || !strings.Contains(found.Error, "saved in the settings") {
		t.Errorf("with a saved key: %+v", found)
	}
	b.refuses = nil
	found = dispatch.Connection{}
	r.call(200, &found, "POST", "/test-connection", "")
	if !found.Connected {
		t.Errorf("with the right key: %+v", found)
	}
}
