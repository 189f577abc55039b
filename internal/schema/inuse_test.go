package schema_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"testing/fstest"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver

	"github.com/bloom-runtime/bloom/internal/pgtest"
	"github.com/bloom-runtime/bloom/internal/schema"
)

// used is a database of two steps, the second of which changes the first one's table, which a
// transaction reads until it is released.
func used(t *testing.T) (db *sql.DB, s *schema.Schema, release func()) {
	t.Helper()
	db, err := sql.Open("pgx", pgtest.Start(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	add := &fstest.MapFile{Data: []byte("-- +goose Up\nALTER TABLE one ADD COLUMN m INTEGER;\n")}
	third := &fstest.MapFile{Data: []byte("-- +goose Up\nCREATE TABLE three (n INTEGER);\n")}
	of := func(files fstest.MapFS) *schema.Schema {
		s, err := schema.Postgres(db, files, 1)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	up(t, of(older), 1)
	holder, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := holder.ExecContext(t.Context(), `LOCK TABLE one IN ACCESS SHARE MODE`); err != nil {
		t.Fatal(err)
	}
	return db, of(fstest.MapFS{"migrations/00001_one.sql": first, "migrations/00002_three.sql": third, "migrations/00003_add.sql": add}),
		func() {
			if err := holder.Rollback(); err != nil {
				t.Error(err)
			}
		}
}

// TestAStepThatWaitsForATableLetsOthersPass keeps the table that a step changes in use, as a dump
// does. Statements that come after the step must not wait for the end of the dump.
func TestAStepThatWaitsForATableLetsOthersPass(t *testing.T) {
	t.Parallel()
	db, s, release := used(t)
	s.SetRetries(1000, 10*time.Millisecond)
	type end struct {
		applied int
		err     error
	}
	ended := make(chan end, 1)
	go func() {
		n, err := s.Up(t.Context())
		ended <- end{n, err}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for waits := false; !waits; time.Sleep(5 * time.Millisecond) {
		if err := db.QueryRowContext(ctx, `SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND relation = 'one'::regclass)`).Scan(&waits); err != nil {
			t.Fatalf("the step never waited for the table: %v", err)
		}
	}
	for range 2 { // also after its second try
		if _, err := db.ExecContext(ctx, `INSERT INTO one VALUES (1)`); err != nil {
			t.Fatalf("behind the waiting step: %v", err)
		}
	}
	select {
	case e := <-ended:
		t.Fatalf("the step did not wait: %+v", e)
	default:
	}
	release()
	if e := <-ended; e.err != nil || e.applied != 2 {
		t.Errorf("%d steps, %v; want 2", e.applied, e.err)
	}
	var timeout string
	if err := db.QueryRowContext(t.Context(), `SELECT current_setting('lock_timeout')`).Scan(&timeout); err != nil || timeout != "0" {
		t.Errorf("a connection was left with lock_timeout = %s, %v", timeout, err)
	}
}

func TestATableThatStaysInUseIsReported(t *testing.T) {
	t.Parallel()
	_, s, release := used(t)
	s.SetRetries(2, time.Millisecond)
	if n, err := s.Up(t.Context()); !errors.Is(err, schema.ErrInUse) || n != 1 {
		t.Errorf("%d steps, %v; want 1 and ErrInUse", n, err)
	}
	release()
	up(t, s, 1)
}
