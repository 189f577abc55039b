package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/bloom-runtime/bloom/internal/cli"
	"github.com/bloom-runtime/bloom/internal/pgtest"
)

// TestTheEarlierDatabaseIsImported imports a dump of the earlier Node implementation into either
// store, and reads it back through the command line.
func TestTheEarlierDatabaseIsImported(t *testing.T) {
	t.Parallel()
	script, err := os.ReadFile("../store/earlier/testdata/earlier.sql")
	if err != nil {
		t.Fatal(err)
	}
	source := pgtest.Start(t)
	conn, err := pgx.Connect(t.Context(), source)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), string(script)); err != nil {
		t.Fatal(err)
	}
	if err := conn.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{"into SQLite": "", "into PostgreSQL": pgtest.Start(t)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPerson(t, nil)
			dir := filepath.Join(t.TempDir(), "data")
			if target != "" {
				p.env["DATABASE_URL"] = target
			}
			out := p.must("migrate", "import", source, "--data-dir", dir)
			if !strings.Contains(out, "llm_tasks") || !strings.Contains(out, "queued again") || strings.Contains(out, "a-secret-that-stays-there") {
				t.Errorf("got:\n%s", out)
			}
			if got := p.run("migrate", "import", source, "--data-dir", dir); got.code != cli.ExitFailure {
				t.Errorf("a second import: exit code %d: %s", got.code, got.err)
			}
			if status := p.must("migrate", "status", "--data-dir", dir); strings.Contains(status, "pending") {
				t.Errorf("the schema is not up to date:\n%s", status)
			}
		})
	}
	// As DATABASE_URL it is refused by every command, and nothing is written into it.
	for _, command := range [][]string{{"server", "--listen", "127.0.0.1:0"}, {"membridge", "--listen", "127.0.0.1:0"}, {"migrate", "up"}, {"migrate", "status"}} {
		t.Run(strings.Join(command, " "), func(t *testing.T) {
			t.Parallel()
			p := newPerson(t, nil)
			p.env["DATABASE_URL"], p.env["RUNTIME_API_KEY"], p.env["MEMBRIDGE_ADMIN_KEY"] = source, "a-key-of-the-runtime", "a-key-of-membridge"
			got := p.run(append(command, "--data-dir", t.TempDir())...)
			if got.code == 0 || !strings.Contains(got.err, "bloom migrate import postgresql://") {
				t.Errorf("exit code %d: %s", got.code, got.err)
			}
			conn, err := pgx.Connect(t.Context(), source)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close(t.Context())
			var tables int
			if err := conn.QueryRow(t.Context(), `SELECT count(*) FROM information_schema.tables WHERE table_schema NOT IN ('pg_catalog', 'information_schema')`).Scan(&tables); err != nil || tables != 8 {
				t.Errorf("%d tables, %v; want the 8 of the earlier implementation", tables, err)
			}
		})
	}
	if got := newPerson(t, nil).run("migrate", "import", "mysql://x"); got.code != cli.ExitUsage || !strings.Contains(got.err, "postgresql://USER@HOST/NAME") {
		t.Errorf("exit code %d: %s", got.code, got.err)
	}
}
