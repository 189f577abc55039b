package cli_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/auditlog"
	"github.com/bloom-runtime/bloom/internal/pgtest"
)

// A restored database continues with its own chain. The files keep the entries that the restore
// lost, and verify.
func TestARestoredDatabaseGoesOnBesideItsFiles(t *testing.T) {
	onBothDatabases(t, func(a *auditPlace) {
		a.start()
		a.tasks(3)
		a.server.stop()
		nothingLost := a.backup("whole")
		a.start()
		a.exported()
		a.server.stop()
		a.restore(nothingLost)
		a.start()
		a.exported()
		if r := a.report("--files", a.dir); len(r.Forks) != 0 || r.Lines != r.Entries {
			a.Errorf("with nothing lost it says %+v", r)
		}
		a.server.stop()
		backup := a.backup("backup")
		for round := 1; round <= 2; round++ {
			a.start()
			a.tasks(2 + round)
			a.exported()
			lost := a.report("--files", a.dir)
			a.server.stop()
			a.restore(backup)
			a.verify(1, "if a backup was restored, start the server", append(a.offline(), "--files", a.dir)...)
			a.start()
			a.server.await("that it notices", func() bool {
				var at struct{ Branch int }
				entries := decode[[]bloom.Audit](a.T, a.p.must("audit", "--action", "audit_forked", "--json"))
				return len(entries) == 1 && json.Unmarshal(entries[0].Data, &at) == nil && at.Branch == round
			})
			// Also before the branch has its first file.
			if r := a.report("--files", a.dir); len(r.Forks) != round {
				a.Errorf("at once after the %d. time it says %+v", round, r)
			}
			a.tasks(2)
			a.exported()
			r := a.report("--files", a.dir)
			if len(r.Forks) != round || r.Lines != r.Entries || r.Forks[round-1].Last != lost.Last {
				a.Fatalf("restored %d times, it says %+v; lost was %+v", round, r, lost)
			}
			a.verify(0, "the files fork after entry", "--files", a.dir, "--files-only")
			a.server.stop()
		}
		// The files from before are still checked against their chain.
		for _, file := range a.files() {
			lines := unpackAudit(a.T, file)
			tampered := strings.Replace(strings.Join(lines, ""), `"detail":"`, `"detail":"x`, 1)
			if err := os.WriteFile(file, auditlog.Pack([]byte(tampered)), 0o600); err != nil {
				a.Fatal(err)
			}
			var first struct{ Seq int64 }
			if err := json.Unmarshal([]byte(lines[0]), &first); err != nil {
				a.Fatal(err)
			}
			a.verify(1, fmt.Sprintf("entry %d in ", first.Seq), "--files", a.dir, "--files-only")
			if err := os.WriteFile(file, auditlog.Pack([]byte(strings.Join(lines, ""))), 0o600); err != nil {
				a.Fatal(err)
			}
		}
	})
}

// backup copies the database and returns where; the server must be stopped.
func (a *auditPlace) backup(name string) string {
	a.Helper()
	if a.database == "" {
		file := filepath.Join(a.TempDir(), name)
		a.p.must("backup", file, "--data-dir", a.dir)
		return file
	}
	return a.copyDatabase(a.database)
}

// copyDatabase creates a PostgreSQL database with the content of another.
func (a *auditPlace) copyDatabase(from string) string {
	a.Helper()
	to := pgtest.Start(a.T)
	source, err := pgx.ParseConfig(from)
	if err != nil {
		a.Fatal(err)
	}
	target, err := pgx.ParseConfig(to)
	if err != nil {
		a.Fatal(err)
	}
	admin := target.Copy()
	admin.Database = "postgres"
	c, err := pgx.ConnectConfig(a.Context(), admin)
	if err != nil {
		a.Fatal(err)
	}
	for _, statement := range []string{"DROP DATABASE " + target.Database, "CREATE DATABASE " + target.Database + " TEMPLATE " + source.Database} {
		if _, err := c.Exec(a.Context(), statement); err != nil {
			a.Fatal(err)
		}
	}
	if err := c.Close(a.Context()); err != nil {
		a.Fatal(err)
	}
	return to
}

// restore puts a copy in place; the server must be stopped.
func (a *auditPlace) restore(backup string) {
	a.Helper()
	if a.database != "" {
		a.database = a.copyDatabase(backup)
		return
	}
	raw, err := os.ReadFile(backup)
	if err != nil {
		a.Fatal(err)
	}
	path := filepath.Join(a.dir, "bloom.db")
	for _, end := range []string{"-wal", "-shm"} {
		_ = os.Remove(path + end)
	}
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		a.Fatal(err)
	}
}
