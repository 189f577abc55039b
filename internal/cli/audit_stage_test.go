package cli_test

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/klauspost/compress/gzip"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/auditlog"
	"github.com/bloom-runtime/bloom/internal/cli"
	"github.com/bloom-runtime/bloom/internal/pgtest"
)

// auditPlace is an installation whose audit is exported to its data directory, as by default.
type auditPlace struct {
	*testing.T
	p        *person
	dir      string
	database string // PostgreSQL's URL; empty for SQLite
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

// start starts the server, which exports what is not exported yet.
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

// exported restarts the server and waits until all entries are in files.
func (a *auditPlace) exported() {
	a.Helper()
	a.restart()
	a.server.await("the export", func() bool {
		got := a.p.run("audit", "verify", "--json", "--files", a.dir)
		if got.code != cli.ExitOK { // until the server has recorded that a backup was restored
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

// report returns verify's report and expects no findings.
func (a *auditPlace) report(args ...string) auditlog.Report {
	a.Helper()
	return decode[auditlog.Report](a.T, a.p.must(append([]string{"audit", "verify", "--json"}, args...)...))
}

// offline are flags with which commands read the database directly.
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

// sql does what only someone with access to the database can do.
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

// files returns the exported files, oldest first.
func (a *auditPlace) files() []string {
	a.Helper()
	found, err := filepath.Glob(filepath.Join(a.dir, "audit/*/*/*/*.jsonl.gz"))
	if err != nil || len(found) == 0 {
		a.Fatal(found, err)
	}
	slices.SortFunc(found, func(x, y string) int { return strings.Compare(filepath.Base(x), filepath.Base(y)) })
	return found
}

// entries returns the entries that export prints.
func (a *auditPlace) entries(args ...string) (all []bloom.Audit) {
	a.Helper()
	for line := range strings.Lines(a.p.must(append([]string{"audit", "export"}, args...)...)) {
		all = append(all, decode[bloom.Audit](a.T, line))
	}
	return all
}

// tamperWithFiles changes exported files in ways that verify must find.
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
		"changed": {func(l []string) []string { l[1] = strings.Replace(l[1], `"detail":"`, `"detail":"x`, 1); return l }, second},
		"removed": {func(l []string) []string { return slices.Delete(l, 1, 2) }, third},
		"reordered": {func(l []string) []string {
			l[len(l)-1] += "\n" // the last line may be moved
			l[1], l[2] = l[2], l[1]
			l[len(l)-1] = strings.TrimSuffix(l[len(l)-1], "\n")
			return l
		}, third},
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
	// The newest file: the other files do not show its absence, the database does.
	if err := os.Rename(last, last+".away"); err != nil {
		a.Fatal(err)
	}
	a.verify(1, "it was exported, but the files end with", append(a.offline(), "--files", a.dir)...)
	// In two folders they are complete again.
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
