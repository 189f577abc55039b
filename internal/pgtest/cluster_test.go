package pgtest_test

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/bloom-runtime/bloom/internal/pgtest"
)

func TestAClusterCrashesAndItsStandbyTakesOver(t *testing.T) {
	t.Parallel()
	c := pgtest.NewCluster(t)
	do := func(url, sql string) (n int) {
		t.Helper()
		conn, err := pgx.Connect(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(t.Context())
		if err := conn.QueryRow(t.Context(), sql).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	const add = `INSERT INTO kept SELECT count(*) + 1 FROM kept RETURNING n`
	if conn, err := pgx.Connect(t.Context(), c.URL()); err != nil {
		t.Fatal(err)
	} else if _, err := conn.Exec(t.Context(), "CREATE TABLE kept (n int)"); err != nil {
		t.Fatal(err)
	} else {
		conn.Close(t.Context())
	}
	do(c.URL(), add)
	c.Crash()
	if _, err := connect(t, c.URL()); err == nil {
		t.Error("it answers after its crash")
	}
	c.Begin()
	do(c.URL(), add)
	c.Stop()
	c.Begin()
	c.AddStandby()
	do(c.EitherURL(), add)
	c.Crash()
	c.Promote()
	if n := do(c.EitherURL(), add); n != 4 {
		t.Errorf("the standby adds number %d, want 4: it lacks what was committed", n)
	}
}
