package e2e_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/client"
	"github.com/bloom-runtime/bloom/internal/pgtest"
	"github.com/bloom-runtime/bloom/internal/storable"
)

// TestTwoRuntimesShareOneSync runs two servers on one PostgreSQL: one reads the workers for both,
// it uses a changed address of membridge that was saved at the other, and when it is killed the
// other takes over.
func TestTwoRuntimesShareOneSync(t *testing.T) {
	t.Parallel()
	database := pgtest.Start(t) // before the harness, to outlive it
	h := newHarness(t)
	b, later := h.bridge(), h.bridge()
	later.dir = filepath.Join(h.dir, "membridge-later")
	b.start()
	later.start()
	args := []string{"--database-url", database, "--membridge-sync-interval", "500ms"}
	first := b.serveFor(args...)
	firstAPI := h.api
	h.url = ""
	b.serveFor(args...) // from here h.url and h.api are the second server's
	known := func(api *client.Client, name string) func() bool {
		return func() bool {
			w, err := api.Worker(t.Context(), name)
			return err == nil && w.Status == bloom.WorkerOnline
		}
	}
	b.ask(t, "POST", "/agents", manualRegistration)
	eventually(t, "the second knows the agent", known(h.api, "worker-01"))
	eventually(t, "the first knows the agent", known(firstAPI, "worker-01"))

	if _, err := h.api.SaveConfig(t.Context(), later.url, bridgeKey); err != nil {
		t.Fatal(err)
	}
	later.ask(t, "POST", "/agents", strings.ReplaceAll(manualRegistration, "worker-01", "worker-02"))
	eventually(t, "the agents are read at the new address", known(h.api, "worker-02"))
	for _, name := range []string{"worker-01", "worker-02"} {
		entries, _, err := h.api.Audit(t.Context(), bloom.AuditQuery{EntityID: name})
		if err != nil || len(entries) != 1 {
			t.Errorf("audited of %s: %s, %v", name, storable.MustJSON(entries), err)
		}
	}

	first.kill()
	later.ask(t, "POST", "/agents", strings.ReplaceAll(manualRegistration, "worker-01", "worker-03"))
	eventually(t, "the second reads the agents alone", known(h.api, "worker-03"))
}
