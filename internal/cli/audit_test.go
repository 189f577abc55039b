package cli_test

import (
	"bytes"
	"database/sql"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/klauspost/compress/gzip"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/auditlog"
	"github.com/bloom-runtime/bloom/internal/cli"
	"github.com/bloom-runtime/bloom/internal/pgtest"
)

// auditPlace is an installation whose audit is exported to its data folder, as by
// default.
type auditPlace struct {
	*testing.T
	p        *person
	dir      string
	database string // PostgreSQL's URL; empty is SQLite
	server   *stage
}

func onBothDatabases(t *testing.T, test func(*auditPlace)) {
	t.Parallel()
	for _, name := range []string{"sqlite", "postgresql"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := &auditPlace{T: t, p: newPerson(t, nil), dir: t.TempDir()}
			if name == "postgresql" {
				a.database = pgtest.Start(t)
			}
			test(a)
		})
	}
}

// start starts the server, which exports at its start what is not exported yet.
func (a *auditPlace) start() {
	a.Helper()
	var more []string
	if a.database != "" {
		more = []string{"--database-url=" + a.database}
	}
	a.server = artifactServer(a.T, a.dir, more...)
	a.p.env["BLOOM_RUNTIME_URL"] = a.server.url()
}

func (a *auditPlace) restart() {
	a.Helper()
	a.server.stop()
	a.start()
}

// exported restarts the server and waits until all there is is in files.
func (a *auditPlace) exported() {
	a.Helper()
	a.restart()
	a.server.await("the export", func() bool {
		got := a.p.run("audit", "verify", "--json", "--files", a.dir)
		if got.code != cli.ExitOK { // until the server has noted that a backup was restored
			return false
		}
		r := decode[auditlog.Report](a.T, got.out)
		return r.Unchained == 0 && r.LastLine == r.Last
	})
}

func (a *auditPlace) tasks(n int) {
	a.Helper()
	for range n {
		a.server.submit("never run")
	}
}

// report is what verify says where nothing is wrong.
func (a *auditPlace) report(args ...string) auditlog.Report {
	a.Helper()
	return decode[auditlog.Report](a.T, a.p.must(append([]string{"audit", "verify", "--json"}, args...)...))
}

// offline has commands read the database itself.
func (a *auditPlace) offline() []string {
	if a.database != "" {
		return []string{"--database-url", a.database}
	}
	return []string{"--data-dir", a.dir}
}

func (a *auditPlace) verify(code int, text string, args ...string) {
	a.Helper()
	got := a.p.run(append([]string{"audit", "verify"}, args...)...)
	if got.code != code || !strings.Contains(got.out, text) {
		a.Errorf("verify %v: exit %d, want %d with %q: %s%s", args, got.code, code, text, got.out, got.err)
	}
}

// sql does what only somebody with the database can.
func (a *auditPlace) sql(statement string) {
	a.Helper()
	var err error
	if a.database == "" {
		var db *sql.DB
		if db, err = sql.Open("sqlite", filepath.Join(a.dir, "bloom.db")+"?_pragma=busy_timeout(60000)"); err == nil {
			_, err = db.ExecContext(a.Context(), statement)
			err = errors.Join(err, db.Close())
		}
	} else {
		var c *pgx.Conn
		if c, err = pgx.Connect(a.Context(), a.database); err == nil {
			_, err = c.Exec(a.Context(), statement)
			err = errors.Join(err, c.Close(a.Context()))
		}
	}
	if err != nil {
		a.Fatal(err)
	}
}

// files are the exported ones, oldest first.
func (a *auditPlace) files() []string {
	a.Helper()
	found, err := filepath.Glob(filepath.Join(a.dir, "audit/*/*/*/*.jsonl.gz"))
	if err != nil || len(found) == 0 {
		a.Fatal(found, err)
	}
	slices.SortFunc(found, func(x, y string) int { return strings.Compare(filepath.Base(x), filepath.Base(y)) })
	return found
}

// entries are those that export prints.
func (a *auditPlace) entries(args ...string) (all []bloom.Audit) {
	a.Helper()
	for line := range strings.Lines(a.p.must(append([]string{"audit", "export"}, args...)...)) {
		all = append(all, decode[bloom.Audit](a.T, line))
	}
	return all
}

func TestTheAuditIsVerifiedByCommand(t *testing.T) {
	onBothDatabases(t, func(a *auditPlace) {
		a.start()
		a.tasks(7)
		a.exported()
		a.tasks(7)
		a.exported()
		a.verify(0, "unchanged")
		a.verify(0, "unchanged", "--files", a.dir)
		if r := a.report("--files", a.dir); r.Entries < 14 || r.Lines != r.Entries {
			a.Errorf("verified %+v", r)
		}
		entries := a.entries()
		third, fourth := entries[2].Seq, entries[3].Seq
		a.server.stop()
		a.verify(0, "unchanged", a.offline()...)
		a.verify(0, "files with", append(a.offline(), "--files", a.dir)...)
		a.verify(0, "files with", "--files", a.dir, "--files-only")
		first := fmt.Sprintf("entry %d is wrong", third)
		for what, c := range map[string]struct{ tamper, undo string }{
			"changed":   {"UPDATE audit_logs SET detail = detail || 'x' WHERE seq = %[1]d", "UPDATE audit_logs SET detail = substr(detail, 1, length(detail) - 1) WHERE seq = %[1]d"},
			"removed":   {"UPDATE audit_logs SET seq = -seq WHERE seq = %[1]d", "UPDATE audit_logs SET seq = -seq WHERE seq < 0"},
			"reordered": {"UPDATE audit_logs SET seq = -1 WHERE seq = %[1]d; UPDATE audit_logs SET seq = %[1]d WHERE seq = %[2]d; UPDATE audit_logs SET seq = %[2]d WHERE seq = -1", ""},
		} {
			if c.undo == "" {
				c.undo = c.tamper
			}
			a.sql(fmt.Sprintf(c.tamper+"/* %[2]d */", third, fourth))
			a.verify(1, first, a.offline()...)
			if what == "changed" {
				a.start()
				a.verify(1, first)
				a.server.stop()
			}
			a.sql(fmt.Sprintf(c.undo+"/* %[1]d %[2]d */", third, fourth))
			a.verify(0, "unchanged", append(a.offline(), "--files", a.dir)...)
		}
		a.tamperWithFiles()
	})
}

// tamperWithFiles does to exported files what verify has to find.
func (a *auditPlace) tamperWithFiles() {
	a.Helper()
	all := a.files()
	file, last, lines := "", all[len(all)-1], []string(nil)
	for _, one := range all { // the server may have written what it found when it started
		if l := unpackAudit(a.T, one); len(l) > len(lines) {
			file, lines = one, l
		}
	}
	second := decode[bloom.Audit](a.T, lines[1]).Seq
	third := decode[bloom.Audit](a.T, lines[2]).Seq
	for what, c := range map[string]struct {
		change func(l []string) []string
		wrong  int64
	}{
		"changed":   {func(l []string) []string { l[1] = strings.Replace(l[1], `"detail":"`, `"detail":"x`, 1); return l }, second},
		"removed":   {func(l []string) []string { return slices.Delete(l, 1, 2) }, third},
		"reordered": {func(l []string) []string { l[1], l[2] = l[2], l[1]; return l }, third},
	} {
		packed := auditlog.Pack([]byte(strings.Join(c.change(slices.Clone(lines)), "")))
		if err := os.WriteFile(file, packed, 0o600); err != nil {
			a.Fatal(err)
		}
		want := fmt.Sprintf("entry %d in ", c.wrong)
		a.verify(1, want, "--files", a.dir, "--files-only")
		a.verify(1, want, append(a.offline(), "--files", a.dir)...)
		if a.Failed() {
			a.Log(what)
		}
	}
	if err := os.WriteFile(file, auditlog.Pack([]byte(strings.Join(lines, ""))), 0o600); err != nil {
		a.Fatal(err)
	}
	a.verify(0, "files with", append(a.offline(), "--files", a.dir)...)
	// The newest file: the other files do not tell, the database does.
	if err := os.Rename(last, last+".away"); err != nil {
		a.Fatal(err)
	}
	a.verify(1, "it was exported, but the files end with", append(a.offline(), "--files", a.dir)...)
	// In two places they are whole again.
	day := strings.TrimPrefix(filepath.Dir(last), filepath.Join(a.dir, "audit"))
	other := filepath.Join(a.TempDir(), "copy")
	if err := errors.Join(os.MkdirAll(filepath.Join(other, "audit", day), 0o700), os.Rename(last+".away", filepath.Join(other, "audit", day, filepath.Base(last)))); err != nil {
		a.Fatal(err)
	}
	a.verify(0, "files with", append(a.offline(), "--files", a.dir, "--files", other)...)
}

func unpackAudit(t *testing.T, path string) []string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return strings.SplitAfter(strings.TrimSuffix(string(text), "\n"), "\n")
}

func TestTheAuditIsExportedByCommand(t *testing.T) {
	onBothDatabases(t, func(a *auditPlace) {
		a.start()
		a.tasks(5)
		a.server.await("the chain", func() bool { return a.report().Unchained == 0 })
		all := a.entries()
		if len(all) < 5 || int64(len(all)) != a.report().Entries {
			a.Fatalf("%d entries are exported", len(all))
		}
		from := func(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z") }
		later := slices.IndexFunc(all, func(e bloom.Audit) bool { return e.Timestamp > all[0].Timestamp })
		if later < 0 {
			later = 0
		}
		if got := a.entries("--from", from(all[later].Timestamp)); len(got) != len(all)-later {
			a.Errorf("%d entries from %s on, want %d", len(got), from(all[later].Timestamp), len(all)-later)
		}
		if got := a.entries("--to", from(all[later].Timestamp)); len(got) != later {
			a.Errorf("%d entries before %s, want %d", len(got), from(all[later].Timestamp), later)
		}
		day := strings.SplitN(from(all[0].Timestamp), "T", 2)[0]
		if got := a.entries("--from", day); len(got) != len(all) {
			a.Errorf("%d entries since %s, want %d", len(got), day, len(all))
		}
		rows, err := csv.NewReader(strings.NewReader(a.p.must("audit", "export", "--format", "csv"))).ReadAll()
		if err != nil || len(rows) != len(all)+1 || rows[1][len(rows[1])-1] != all[0].Hash {
			a.Errorf("as CSV it has %d rows (%v)", len(rows), err)
		}
		file := filepath.Join(a.TempDir(), "audit.jsonl")
		a.p.must("audit", "export", "-o", file)
		if got := a.p.run("audit", "export", "-o", file); got.code != 1 {
			a.Errorf("a file that is there: exit %d: %s", got.code, got.err)
		}
		a.server.stop()
		if got := a.entries(a.offline()...); len(got) != len(all) || got[4].Hash != all[4].Hash {
			a.Errorf("offline %d entries are exported, want %d", len(got), len(all))
		}
		if got := a.p.run("audit", "export", "--from", "yesterday"); got.code != 2 {
			a.Errorf("a wrong time: exit %d: %s", got.code, got.err)
		}
	})
}

// A restored database goes on with its own chain. What the files hold of what was lost
// stays there, and verifies.
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
				told := decode[[]bloom.Audit](a.T, a.p.must("audit", "--action", "audit_forked", "--json"))
				return len(told) == 1 && json.Unmarshal(told[0].Data, &at) == nil && at.Branch == round
			})
			// Before the branch has its first file, too.
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
		// What is in the files of before is still held to their chain.
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

// Servers of one database that have no folder in common write to one each: verify needs
// them all, and says so.
func TestTheAuditInFoldersOfSeveralServers(t *testing.T) {
	t.Parallel()
	a := &auditPlace{T: t, p: newPerson(t, nil), dir: t.TempDir(), database: pgtest.Start(t)}
	folders := []string{a.dir, t.TempDir()}
	var all []string
	for _, dir := range folders {
		a.dir = dir
		all = append(all, "--files", dir)
		a.start()
		a.tasks(2)
		a.server.stop()
		a.start() // exports at its start
		a.server.await("the export", func() bool {
			got := a.p.run(append([]string{"audit", "verify", "--json"}, all...)...)
			r := auditlog.Report{}
			return got.code == cli.ExitOK && json.Unmarshal([]byte(got.out), &r) == nil && r.Unchained == 0 && r.LastLine == r.Last
		})
		a.server.stop()
	}
	for _, dir := range folders {
		a.verify(1, "where each server writes to a folder of its own, give all of them with --files", append(a.offline(), "--files", dir)...)
	}
	a.verify(0, " files with", append(a.offline(), all...)...)
	a.verify(0, " files with", append([]string{"--files-only"}, all...)...)
}

// backup is where a copy of the database lies; the server is stopped.
func (a *auditPlace) backup(name string) string {
	a.Helper()
	if a.database == "" {
		file := filepath.Join(a.TempDir(), name)
		a.p.must("backup", file, "--data-dir", a.dir)
		return file
	}
	return a.copyDatabase(a.database)
}

// copyDatabase makes a PostgreSQL database with the content of another.
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

// restore puts a copy in place; the server is stopped.
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
