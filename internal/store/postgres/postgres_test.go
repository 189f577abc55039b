package postgres_test

import (
	"context"
	"testing"

	"go.uber.org/goleak"

	"github.com/bloom-runtime/bloom/internal/pgtest"
	"github.com/bloom-runtime/bloom/internal/store/contract"
	"github.com/bloom-runtime/bloom/internal/store/postgres"
	"github.com/bloom-runtime/bloom/internal/store/storetest"
	"github.com/bloom-runtime/bloom/internal/timing"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t testing.TB, url string, clock timing.Clock) *postgres.Store {
	t.Helper()
	s, err := postgres.Open(t.Context(), postgres.Config{URL: url, Clock: clock, Transcripts: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// migrated is an empty database with the current schema.
var migrated = pgtest.Template{Prepare: func(url string) error {
	_, err := postgres.MigrateUp(context.Background(), url)
	return err
}}

func TestStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, 200, func(t *testing.T, clock timing.Clock) contract.Store {
		url := migrated.Start(t)
		return breakable{open(t, url, clock), url}
	})
}
