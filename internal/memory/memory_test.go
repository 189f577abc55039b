package memory_test

import (
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	_ "modernc.org/sqlite" // the plugin's database

	"github.com/bloom-runtime/bloom/internal/memory"
	"github.com/bloom-runtime/bloom/internal/miniotest"
	"github.com/bloom-runtime/bloom/internal/objects"
)

func TestMemory(t *testing.T) {
	t.Parallel()
	server := miniotest.Shared(t)
	for name, test := range map[string]func(*testing.T, *objects.Bucket){
		"what the primary pushes the others pull":                movesOn,
		"an unchanged memory is not sent again":                  unchanged,
		"a memory that came by pull and did not change is equal": equalAfterPull,
		"a secondary does not push":                              secondaryPush,
		"the primary's memory is not overwritten":                primaryPull,
		"a selection changes the roles":                          selection,
		"a person's selection stays until a later one":           laterSelection,
		"a selection from the future does not last":              selectionFromTheFuture,
		"the latest changes of the leadership are recorded":      leadershipAudit,
		"of two pushers at once one wins":                        twoPushers,
		"a pull replaces what the plugin has open":               openDatabase,
		"a pull keeps what was there":                            safetyBackup,
		"a damaged database is replaced and kept":                damaged,
		"a memory that the disk has no room for is not pulled":   tooLarge,
		"pages of another size":                                  pageSize,
		"old backups go":                                         backupsGo,
		"a lock that was left is taken over":                     staleLock,
		"a memory that another tool pushed is pulled":            foreignManifest,
		"a damaged upload is not pulled":                         damagedUpload,
		"a first lease nobody chose":                             bootstrap,
		"what somebody wrote into the bucket does no harm":       tampered,
		"a link to the database stays one":                       linked,
		"a new primary takes what it has not seen":               catchesUp,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, bucket(t, server))
		})
	}
}

// Locks and leadership rely on conditional writes of another storage, too.
func TestMemoryInAnotherStorage(t *testing.T) {
	t.Parallel()
	server := miniotest.StartVersity(t)
	for name, test := range map[string]func(*testing.T, *objects.Bucket){
		"what the primary pushes the others pull": movesOn,
		"a selection changes the roles":           selection,
		"of two pushers at once one wins":         twoPushers,
		"a lock that was left is taken over":      staleLock,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, bucket(t, server))
		})
	}
}

func movesOn(t *testing.T, b *objects.Bucket) {
	one, two := newNode(t, b, "one"), newNode(t, b, "two")
	if _, err := two.Pull(t.Context()); !errors.Is(err, memory.ErrNothingPushed) {
		t.Fatalf("pull of nothing: %v", err)
	}
	one.write("a", "b")
	if out := one.push(); out.Observations != 2 || out.Unchanged {
		t.Fatalf("pushed %+v", out)
	}
	two.pull()
	two.want("a", "b")
	one.write("c")
	one.push()
	two.pull()
	two.want("a", "b", "c")
	if s, err := two.Status(t.Context()); err != nil || !s.InStep || s.Role != memory.Secondary || s.Lease.PrimaryNode != "one" {
		t.Fatalf("status %+v %v", s, err)
	}
}

func unchanged(t *testing.T, b *objects.Bucket) {
	n := newNode(t, b, "one")
	n.write("a")
	n.push()
	if out := n.push(); !out.Unchanged {
		t.Fatalf("pushed again: %+v", out)
	}
}

func equalAfterPull(t *testing.T, b *objects.Bucket) {
	one, two := newNode(t, b, "one"), newNode(t, b, "two")
	one.write("a", "b")
	one.push()
	two.pull()
	if out := two.pull(); !out.Unchanged {
		t.Fatalf("pulled again: %+v", out)
	}
	two.plugin() // in a mode with a log now
	if out := two.pull(); !out.Unchanged {
		t.Fatalf("pulled again: %+v", out)
	}
	one.write("c")
	one.push()
	two.pull() // into the open database
	if out := two.pull(); !out.Unchanged {
		t.Fatalf("pulled again: %+v", out)
	}
}

func openDatabase(t *testing.T, b *objects.Bucket) {
	one, two := newNode(t, b, "one"), newNode(t, b, "two")
	one.write("a", "b")
	one.push()
	two.write("local") // and keeps it open, with a log
	two.pull()
	two.want("a", "b")
	two.write("c")
	two.want("a", "b", "c")
}

func safetyBackup(t *testing.T, b *objects.Bucket) {
	one, two := newNode(t, b, "one"), newNode(t, b, "two")
	one.write("a")
	one.push()
	two.write("x", "y")
	out := two.pull()
	if !out.LocalAhead || out.Backup == "" {
		t.Fatalf("pulled %+v", out)
	}
	kept := newNode(t, b, "kept", func(c *memory.Config) { c.DB = filepath.Join(out.Backup, "claude-mem.db") })
	kept.want("x", "y")
	if _, err := os.Stat(filepath.Join(out.Backup, "manifest.json")); err != nil {
		t.Fatal(err)
	}
}

func damaged(t *testing.T, b *objects.Bucket) {
	one, two := newNode(t, b, "one"), newNode(t, b, "two")
	one.write("a")
	one.push()
	if err := os.WriteFile(two.DB, []byte("this is no database, but it is mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	out := two.pull()
	two.want("a")
	if got, err := os.ReadFile(filepath.Join(out.Backup, "claude-mem.db")); err != nil || string(got) != "this is no database, but it is mine" {
		t.Fatalf("kept %q %v", got, err)
	}
}

func pageSize(t *testing.T, b *objects.Bucket) {
	one, two := newNode(t, b, "one"), newNode(t, b, "two")
	one.write("a")
	one.push()
	db, err := sql.Open("sqlite", "file:"+two.DB+"?_pragma=page_size(8192)&_pragma=journal_mode(WAL)")
	if err != nil {
		t.Fatal(err)
	}
	_, err = db.ExecContext(t.Context(), "CREATE TABLE observations (id INTEGER PRIMARY KEY, text TEXT)")
	if err = errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	two.pull()
	two.want("a")
}

func backupsGo(t *testing.T, b *objects.Bucket) {
	one, two := newNode(t, b, "one"), newNode(t, b, "two", func(c *memory.Config) { c.BackupCount = 2 })
	for i := range 4 {
		one.write(fmt.Sprint(i))
		one.push()
		two.write("local")
		two.pull()
	}
	if left, err := two.Backups(); err != nil || len(left) != 2 {
		t.Fatalf("backups %q %v", left, err)
	}
}

func linked(t *testing.T, b *objects.Bucket) {
	one, real := newNode(t, b, "one"), newNode(t, b, "two")
	one.write("a")
	one.push()
	real.write("mine")
	link := filepath.Join(t.TempDir(), "link.db")
	if err := os.Symlink(real.DB, link); err != nil {
		t.Fatal(err)
	}
	two := newNode(t, b, "two", func(c *memory.Config) { c.DB = link })
	two.pull()
	real.want("a")
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link became %v %v", info, err)
	}
	for _, wrong := range []string{t.TempDir(), "/dev/null"} {
		if _, err := memory.New(memory.Config{Project: "garden", Node: "x", DB: wrong, Bucket: b}); err == nil {
			t.Errorf("%s is taken for a database", wrong)
		}
	}
	if err := os.Remove(real.DB); err != nil {
		t.Fatal(err)
	}
	if _, err := memory.New(memory.Config{Project: "garden", Node: "x", DB: link, Bucket: b}); err == nil {
		t.Error("a link to nowhere is taken for a database")
	}
}
