package maintenance_test

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
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/klauspost/compress/gzip"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/audit"
	"github.com/bloom-runtime/bloom/internal/auditlog"
	"github.com/bloom-runtime/bloom/internal/maintenance"
	"github.com/bloom-runtime/bloom/internal/pgtest"
	"github.com/bloom-runtime/bloom/internal/store/contract"
	"github.com/bloom-runtime/bloom/internal/store/postgres"
	"github.com/bloom-runtime/bloom/internal/store/sqlite"
)

// audited is a database with an audit that a test may tamper with.
type audited struct {
	contract.Store
	tamper func(t *testing.T, query string)
}

func auditedStores(t *testing.T) map[string]audited {
	path := filepath.Join(t.TempDir(), "bloom.db")
	lite, err := sqlite.Open(t.Context(), sqlite.Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	url := pgtest.Start(t)
	pg, err := postgres.Open(t.Context(), postgres.Config{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(lite.Close(), pg.Close()); err != nil {
			t.Error(err)
		}
	})
	return map[string]audited{
		"sqlite": {lite, func(t *testing.T, query string) {
			db, err := sql.Open("sqlite", path+"?_pragma=busy_timeout(10000)")
			if err == nil {
				_, err = db.ExecContext(t.Context(), query)
				err = errors.Join(err, db.Close())
			}
			if err != nil {
				t.Fatal(err)
			}
		}},
		"postgresql": {pg, func(t *testing.T, query string) {
			c, err := pgx.Connect(t.Context(), url)
			if err == nil {
				_, err = c.Exec(t.Context(), query)
				err = errors.Join(err, c.Close(t.Context()))
			}
			if err != nil {
				t.Fatal(err)
			}
		}},
	}
}

// fill appends entries and waits until they are chained.
func fill(t *testing.T, s contract.Store, n int) {
	t.Helper()
	for i := range n {
		if err := s.AppendAudit(t.Context(), bloom.Audit{Action: "test", EntityType: "test", EntityID: fmt.Sprint(i), Actor: "ann", Detail: "é <>&\n"}); err != nil {
			t.Fatal(err)
		}
	}
	for end := time.Now().Add(time.Minute); ; {
		_, _ = s.Seal(t.Context())
		if lag, err := s.AuditLag(t.Context()); err != nil || time.Now().After(end) {
			t.Fatal("the entries are not chained", err)
		} else if lag.Unchained == 0 {
			return
		}
	}
}

func export(t *testing.T, s contract.Store, files auditlog.Files) maintenance.Result {
	t.Helper()
	res, err := maintenance.NewAuditExport(maintenance.AuditExportConfig{Store: s, Files: files}).RunOnce(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func TestTheAuditsOfTwoInstallationsAreNotMixed(t *testing.T) {
	t.Parallel()
	files := folder(t)
	run := func(installation string) error {
		s := open(t, newClock())
		fill(t, s, 3)
		_, err := maintenance.NewAuditExport(maintenance.AuditExportConfig{Store: s, Files: files, Installation: installation}).RunOnce(t.Context())
		return err
	}
	if err := run("one"); err != nil {
		t.Fatal(err)
	}
	before, err := auditlog.All(t.Context(), files)
	if err != nil || len(before) != 1 {
		t.Fatal(before, err)
	}
	if err := run("two"); err == nil || !strings.Contains(err.Error(), "another installation") {
		t.Errorf("the second one: %v", err)
	}
	if after, err := auditlog.All(t.Context(), files); err != nil || !slices.Equal(after, before) {
		t.Errorf("%v instead of %v, %v", after, before, err)
	}
	if err := run("one"); err != nil { // its database was replaced
		t.Error(err)
	}
}

func folder(t *testing.T) *auditlog.Folder {
	t.Helper()
	f, err := auditlog.OpenFolder(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestTamperingIsFound(t *testing.T) {
	t.Parallel()
	for name, s := range auditedStores(t) {
		files := folder(t)
		fill(t, s, 40)
		if res := export(t, s, files); res.Changed != 40 {
			t.Fatalf("%s: exported %+v, want 40 entries", name, res)
		}
		fill(t, s, 3)
		r, err := auditlog.Verify(t.Context(), s, files)
		if err != nil || r.Entries != 43 || r.Lines != 40 {
			t.Fatalf("%s: untouched it says %+v, %v", name, r, err)
		}
		const at = `(SELECT max(seq) - 23 FROM audit_chain)`
		for what, c := range map[string]struct {
			tamper, undo string
			wrong        int64 // the first entry, 0: found by the files alone
			files        bool
		}{
			"a field":       {`UPDATE audit_logs SET actor = 'eve' WHERE seq = ` + at, `UPDATE audit_logs SET actor = 'ann' WHERE seq = ` + at, 20, false},
			"a swap":        {`UPDATE audit_logs SET entity_id = 'x' || (39 - (seq - (SELECT max(seq) - 42 FROM audit_chain))) WHERE seq IN (` + at + `, ` + at + ` + 1)`, `UPDATE audit_logs SET entity_id = '' || (seq - (SELECT max(seq) - 42 FROM audit_chain)) WHERE seq IN (` + at + `, ` + at + ` + 1)`, 20, false},
			"a removal":     {`UPDATE audit_logs SET seq = -seq WHERE seq = ` + at, `UPDATE audit_logs SET seq = -seq WHERE seq < 0`, 20, false},
			"a forged cut":  {`UPDATE audit_logs SET seq = -seq WHERE seq = ` + at + `; UPDATE audit_chain SET removed_at = 1 WHERE seq = ` + at, `UPDATE audit_logs SET seq = -seq WHERE seq < 0; UPDATE audit_chain SET removed_at = NULL`, 20, false},
			"a trace-less":  {`UPDATE audit_logs SET seq = -seq WHERE seq = ` + at + `; UPDATE audit_chain SET seq = -seq WHERE seq = ` + at, `UPDATE audit_logs SET seq = -seq WHERE seq < 0; UPDATE audit_chain SET seq = -seq WHERE seq < 0`, 21, false},
			"a cut-off end": {`UPDATE audit_head SET seq = seq + 1`, `UPDATE audit_head SET seq = seq - 1`, 44, false},
		} {
			s.tamper(t, c.tamper)
			_, err := auditlog.Verify(t.Context(), s, nil)
			var fault *audit.Fault
			if !errors.As(err, &fault) || fault.Seq != c.wrong {
				t.Errorf("%s: after %s it says %v, want entry %d", name, what, err, c.wrong)
			}
			s.tamper(t, c.undo)
			if _, err := auditlog.Verify(t.Context(), s, files); err != nil {
				t.Fatalf("%s: after %s was undone: %v", name, what, err)
			}
		}
		// A rewritten end of the database, including its head, is found by the files.
		s.tamper(t, `DELETE FROM audit_logs WHERE seq > `+at+`; DELETE FROM audit_chain WHERE seq > `+at+`;
			UPDATE audit_head SET seq = (SELECT max(seq) FROM audit_chain), hash = (SELECT hash FROM audit_chain ORDER BY seq DESC LIMIT 1)`)
		if _, err := auditlog.Verify(t.Context(), s, nil); err != nil {
			t.Errorf("%s: nothing in the database tells, and it says %v", name, err)
		}
		var fault *audit.Fault
		if _, err := auditlog.Verify(t.Context(), s, files); !errors.As(err, &fault) || fault.Seq != 21 || fault.Kind != audit.Differs {
			t.Errorf("%s: after its end was cut off it says %v, want entry 21", name, err)
		}
	}
}

// unpack reads the only file of an export.
func unpack(t *testing.T, dir string) (path string, lines []string) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "audit/*/*/*/*.jsonl.gz"))
	if err != nil || len(found) != 1 {
		t.Fatal(found, err)
	}
	f, err := os.Open(found[0])
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return found[0], strings.SplitAfter(strings.TrimSuffix(string(text), "\n"), "\n")
}

func TestATamperedLineIsFound(t *testing.T) {
	t.Parallel()
	s, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "bloom.db")})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	fill(t, s, 30)
	dir := t.TempDir()
	files, err := auditlog.OpenFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	export(t, s, files)
	path, lines := unpack(t, dir)
	for what, c := range map[string]struct {
		change func(lines []string) []string
		wrong  int64
	}{
		"a changed line":   {func(l []string) []string { l[9] = strings.Replace(l[9], "ann", "eve", 1); return l }, 10},
		"a removed line":   {func(l []string) []string { return slices.Delete(l, 9, 10) }, 11},
		"swapped lines":    {func(l []string) []string { l[9], l[10] = l[10], l[9]; return l }, 11},
		"a line twice":     {func(l []string) []string { return slices.Insert(l, 9, l[8]) }, 9},
		"no last line":     {func(l []string) []string { return l[:29] }, 30},
		"no first line":    {func(l []string) []string { return l[1:] }, 2},
		"what is no entry": {func(l []string) []string { l[9] = "{}\n"; return l }, 10},
	} {
		changed := strings.Join(c.change(slices.Clone(lines)), "")
		if err := os.WriteFile(path, auditlog.Pack([]byte(changed)), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := auditlog.Verify(t.Context(), nil, files)
		var fault *audit.Fault
		if !errors.As(err, &fault) || fault.Seq != c.wrong || !strings.HasSuffix(path, fault.File) {
			t.Errorf("with %s it says %v, want entry %d", what, err, c.wrong)
		}
	}
	if err := os.WriteFile(path, []byte("no gzip"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := auditlog.Verify(t.Context(), nil, files); err == nil {
		t.Error("a broken file is not found")
	}
}

var errDied = errors.New("the process died")

func TestAnExportIsReadable(t *testing.T) {
	t.Parallel()
	s, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "bloom.db")})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	fill(t, s, 2)
	if err := s.AppendAudit(t.Context(), bloom.Audit{Action: "test", EntityType: "test", EntityID: "=1+1", Actor: "＠eve", Detail: "\n=2+3"}); err != nil {
		t.Fatal(err)
	}
	for format, want := range map[string]string{auditlog.JSONL: `"seq":3,`, auditlog.CSV: ",'=1+1,'＠eve,,,\"'\n=2+3\","} {
		var b bytes.Buffer
		n, err := auditlog.Export(t.Context(), s, &b, format, time.Time{}, time.Time{})
		if err != nil || n != 3 || !strings.Contains(b.String(), want) {
			t.Errorf("%s: %d entries, %v: %s", format, n, err, b.String())
		}
		if n, err := auditlog.Export(t.Context(), s, io.Discard, format, time.Now().Add(time.Hour), time.Time{}); n != 0 || err != nil {
			t.Errorf("%s of the future: %d entries, %v", format, n, err)
		}
	}
}
