package app_test

import (
	"context"
	"log/slog"
	"net/url"
	"strings"
	"testing"

	"github.com/bloom-runtime/bloom/internal/app"
	"github.com/bloom-runtime/bloom/internal/config"
	"github.com/bloom-runtime/bloom/internal/pgtest"
)

// waits calls fn with the first log line that a server waits for its database.
type waits struct {
	slog.Handler
	fn func()
}

func (w *waits) Handle(_ context.Context, r slog.Record) error {
	if strings.HasPrefix(r.Message, "waiting for PostgreSQL") && w.fn != nil {
		w.fn()
		w.fn = nil
	}
	return nil
}

func (w *waits) Enabled(context.Context, slog.Level) bool { return true }

func (w *waits) WithAttrs([]slog.Attr) slog.Handler { return w }

func TestAServerWaitsForADatabaseThatStarts(t *testing.T) {
	t.Parallel()
	cluster := pgtest.NewCluster(t)
	open := func(database string, waiting func()) error {
		cfg := serverConfig(t)
		cfg.DatabaseURL, cfg.RuntimeAPIKey, cfg.NoMembridge = config.Secret(database), key, true
		s, err := app.OpenServer(t.Context(), cfg, app.Build{Version: "test", Logger: slog.New(&waits{fn: waiting})})
		if err == nil {
			must(t, s.Close())
		}
		return err
	}
	cluster.Stop()
	waited := false
	if err := open(cluster.URL(), func() { waited = true; cluster.Begin() }); err != nil || !waited {
		t.Errorf("the server waited: %v, and ended with %v", waited, err)
	}
	missing, err := url.Parse(cluster.URL())
	must(t, err)
	missing.Path = "/nope"
	if err := open(missing.String(), func() { t.Error("waited for a database that does not exist") }); err == nil || !strings.Contains(err.Error(), "DATABASE_URL") {
		t.Errorf("it started without a database, or says %v", err)
	}
}
