package cli_test

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/auditlog"
	"github.com/bloom-runtime/bloom/internal/cli"
	"github.com/bloom-runtime/bloom/internal/pgtest"
)

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

// Servers with one database but no common folder write to one each: verify needs all of them, and
// says so.
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
		a.start() // exports when it starts
		a.server.await("the export", func() bool {
			got := a.p.run(append([]string{"audit", "verify", "--json"}, all...)...)
			r := auditlog.Report{}
			return got.code == cli.ExitOK && json.Unmarshal([]byte(got.out), &r) == nil && r.Unchained == 0 && r.LastLine == r.Last
		})
		a.server.stop()
	}
	for _, dir := range folders {
		a.verify(1, "if each server writes to its own folder, pass all of them with --files", append(a.offline(), "--files", dir)...)
	}
	a.verify(0, " files with", append(a.offline(), all...)...)
	a.verify(0, " files with", append([]string{"--files-only"}, all...)...)
}
