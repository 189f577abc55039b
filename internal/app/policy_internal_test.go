package app

import (
	"errors"
	"log/slog"
	"testing"

	"github.com/bloom-runtime/bloom/internal/config"
	"github.com/bloom-runtime/bloom/internal/membridge/mbclient"
)

// Whoever may set membridge's address must not reach, with it, what only this
// machine can: a cloud's metadata service lives at a link-local address. The
// refusal comes before a connection is made.
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
