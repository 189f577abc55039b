package app

import (
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/bloom-runtime/bloom/internal/config"
	"github.com/bloom-runtime/bloom/internal/membridge/mbclient"
)

// Someone who may set membridge's address must not reach with it what only this machine can: a
// cloud's metadata service has a link-local address. The refusal comes before a connection is made.
func TestMembridgeIsNeverAtALinkLocalAddress(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"http://169.254.169.254", "http://[fe80::1]:80", "http://[::ffff:169.254.169.254]/", "http://0.0.0.0:1"} {
		var cfg config.Server
		cfg.MembridgeServerURL = url
		c, err := newControlPlane(cfg, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		defer c.client.Close()
		if _, err := c.Health(t.Context()); !errors.Is(err, mbclient.ErrAddressRefused) {
			t.Errorf("%s: %v, want a refusal", url, err)
		}
		account, err := MembridgeAccount{URL: url}.client("")
		if err != nil {
			t.Fatal(err)
		}
		defer account.Close()
		if _, err := account.Health(t.Context()); !errors.Is(err, mbclient.ErrAddressRefused) {
			t.Errorf("%s from a worker: %v, want a refusal", url, err)
		}
	}
}

func TestAnAddressOfAnotherMachinesLoopbackIsNotFollowed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		membridge, reported string
		follows             bool
	}{
		{"http://bridge.example:8000", "http://127.0.0.1:5000", false}, {"http://bridge.example:8000", "http://localhost:5000", false},
		{"http://bridge.example:8000", "http://runtime.example:5000", true}, {"http://127.0.0.1:8000", "http://127.0.0.1:5000", true},
	} {
		w := &Worker{cfg: WorkerConfig{Membridge: MembridgeAccount{URL: c.membridge}}, log: slog.New(slog.DiscardHandler), route: newRoute(nil)}
		w.moved(c.reported)
		if follows := w.route.to != nil; follows != c.follows {
			t.Errorf("membridge at %s reports %s: follows %v", c.membridge, c.reported, follows)
		}
	}
}

func TestAWorkersErrorNamesTheKeyThatItNeeds(t *testing.T) {
	t.Parallel()
	bridge := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = w.Write([]byte(`{"detail":"Invalid key"}`))
	}))
	defer bridge.Close()
	for key, want := range map[string]string{"": "MEMBRIDGE_AGENT_KEY", "an-admin-key": "MEMBRIDGE_ADMIN_KEY"} {
		c, err := MembridgeAccount{URL: bridge.URL, AdminKey: key}.client("")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.RegisterAgent(t.Context(), mbclient.Registration{Name: "w"}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("with admin key %q: %v, want word of %s", key, err, want)
		}
		c.Close()
	}
}
