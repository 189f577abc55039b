package memory_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	_ "modernc.org/sqlite" // the plugin's database

	"github.com/bloom-runtime/bloom/internal/memory"
	"github.com/bloom-runtime/bloom/internal/miniotest"
	"github.com/bloom-runtime/bloom/internal/objects"
)

// node is one machine: a folder with a database that its plugin writes.
type node struct {
	*memory.Project

	t  *testing.T
	db *sql.DB
}

// bucket is a new, empty one.
func bucket(t *testing.T, server *miniotest.Server) *objects.Bucket {
	t.Helper()
	b, err := objects.Open(server.Bucket()) // which nobody has made yet
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func newNode(t *testing.T, b *objects.Bucket, name string, change ...func(*memory.Config)) *node {
	t.Helper()
	c := memory.Config{Project: "garden", Node: name, DB: filepath.Join(t.TempDir(), "claude-mem.db"), Bucket: b}
	for _, f := range change {
		f(&c)
	}
	p, err := memory.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return &node{Project: p, t: t}
}

// plugin opens the database as the memory plugin does and keeps it open.
func (n *node) plugin() *sql.DB {
	n.t.Helper()
	if n.db == nil {
		db, err := sql.Open("sqlite", "file:"+n.DB+"?_pragma=journal_mode(WAL)&_pragma=busy_timeout(300000)") // however busy the machine is
		if err != nil {
			n.t.Fatal(err)
		}
		n.db = db
		n.t.Cleanup(func() { db.Close() })
	}
	return n.db
}

func (n *node) write(texts ...string) {
	n.t.Helper()
	if _, err := n.plugin().ExecContext(n.t.Context(), "CREATE TABLE IF NOT EXISTS observations (id INTEGER PRIMARY KEY, text TEXT)"); err != nil {
		n.t.Fatal(err)
	}
	for _, text := range texts {
		if _, err := n.plugin().ExecContext(n.t.Context(), "INSERT INTO observations (text) VALUES (?)", text); err != nil {
			n.t.Fatal(err)
		}
	}
}

func (n *node) observations() []string {
	n.t.Helper()
	rows, err := n.plugin().QueryContext(n.t.Context(), "SELECT text FROM observations ORDER BY id")
	if err != nil {
		n.t.Fatal(err)
	}
	defer rows.Close()
	var texts []string
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			n.t.Fatal(err)
		}
		texts = append(texts, text)
	}
	if err := rows.Err(); err != nil {
		n.t.Fatal(err)
	}
	return texts
}

func (n *node) push() memory.Pushed {
	n.t.Helper()
	out, err := n.Push(n.t.Context())
	if err != nil {
		n.t.Fatalf("%s pushes: %v", n.Node, err)
	}
	return out
}

func (n *node) pull() memory.Pulled {
	n.t.Helper()
	out, err := n.Pull(n.t.Context())
	if err != nil {
		n.t.Fatalf("%s pulls: %v", n.Node, err)
	}
	return out
}

func (n *node) want(texts ...string) {
	n.t.Helper()
	if got := n.observations(); fmt.Sprint(got) != fmt.Sprint(texts) {
		n.t.Fatalf("%s remembers %q, want %q", n.Node, got, texts)
	}
}

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

// Locks and leadership rely on conditions of another storage as well.
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

func secondaryPush(t *testing.T, b *objects.Bucket) {
	one, two := newNode(t, b, "one"), newNode(t, b, "two")
	one.write("a")
	one.push()
	two.write("b")
	var not *memory.NotPrimaryError
	if _, err := two.Push(t.Context()); !errors.As(err, &not) || not.Primary != "one" {
		t.Fatalf("a secondary's push: %v", err)
	}
	two.pull()
	two.want("a")
}

func primaryPull(t *testing.T, b *objects.Bucket) {
	one := newNode(t, b, "one")
	one.write("a")
	one.push()
	one.write("b")
	var differs *memory.PrimaryDiffersError
	if _, err := one.Pull(t.Context()); !errors.As(err, &differs) {
		t.Fatalf("the primary's pull: %v", err)
	}
	one.want("a", "b")
	again := newNode(t, b, "one") // the same node with an empty disk
	again.pull()
	again.want("a")
}

func selection(t *testing.T, b *objects.Bucket) {
	one, two := newNode(t, b, "one"), newNode(t, b, "two")
	one.write("a")
	one.push()
	two.pull()
	l, err := two.Select(t.Context(), "two", 0, false)
	if err != nil || l.Epoch != 2 || l.NeedsSelection {
		t.Fatalf("selected %+v %v", l, err)
	}
	two.write("b")
	two.push()
	var not *memory.NotPrimaryError
	if _, err := one.Push(t.Context()); !errors.As(err, &not) || not.Primary != "two" {
		t.Fatalf("the former primary pushes: %v", err)
	}
	one.pull()
	one.want("a", "b")
}

func twoPushers(t *testing.T, b *objects.Bucket) {
	free := func(c *memory.Config) { c.IgnoreLeadership = true }
	nodes := []*node{newNode(t, b, "one", free), newNode(t, b, "two", free), newNode(t, b, "three", free)}
	for _, n := range nodes {
		n.write(n.Node)
	}
	var all sync.WaitGroup
	outcomes := make([]error, len(nodes))
	for i, n := range nodes {
		all.Go(func() { _, outcomes[i] = n.Push(t.Context()) })
	}
	all.Wait()
	won := 0
	for i, err := range outcomes {
		var locked *memory.LockedError
		switch {
		case err == nil:
			won++
		case !errors.As(err, &locked):
			t.Errorf("%s: %v", nodes[i].Node, err)
		}
	}
	if won == 0 {
		t.Fatalf("nobody won: %v", outcomes)
	}
	reader := newNode(t, b, "reader")
	reader.pull()
	if got := reader.observations(); len(got) != 1 {
		t.Fatalf("the memory is a mix: %q", got)
	}
}

// deaf is a storage that ignores the conditions of a write.
type deaf struct{ http.RoundTripper }

func (d deaf) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := d.RoundTripper.RoundTrip(r)
	if err == nil && res.StatusCode == http.StatusPreconditionFailed {
		res.Body.Close()
		res.StatusCode, res.Status, res.Body = http.StatusOK, "200 OK", http.NoBody
		res.Header.Set("ETag", `"0123456789abcdef0123456789abcdef"`)
	}
	return res, err
}

func TestAStorageThatIgnoresConditionsIsRefused(t *testing.T) {
	t.Parallel()
	config := miniotest.Shared(t).Bucket()
	sound, err := objects.Open(config)
	if err != nil {
		t.Fatal(err)
	}
	config.Transport = deaf{http.DefaultTransport}
	b, err := objects.Open(config)
	if err != nil {
		t.Fatal(err)
	}
	one := newNode(t, b, "one")
	one.write("a")
	refused := func(what string, err error) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), "ignores conditions") {
			t.Errorf("%s: %v", what, err)
		}
	}
	_, err = one.Push(t.Context())
	refused("a push", err)
	_, err = one.Select(t.Context(), "one", 0, false)
	refused("a selection", err)
	_, _, err = one.Follow(t.Context(), memory.Selection{Primary: "one", Epoch: 1, At: time.Now(), Until: time.Now().Add(time.Hour)})
	refused("a selection in the control plane", err)
	first := newNode(t, sound, "one")
	first.write("b")
	first.push() // so that there is a lease that nobody needs to write
	_, err = one.Push(t.Context())
	refused("a push under a lease", err)
	reader := newNode(t, sound, "reader")
	reader.pull()
	reader.want("b")
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

func staleLock(t *testing.T, b *objects.Bucket) {
	now := time.Now()
	clock := func(c *memory.Config) { c.Now = func() time.Time { return now } }
	one := newNode(t, b, "one", clock)
	one.write("a")
	if err := b.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	lock := []byte(fmt.Sprintf(`{"hostname":"dead","timestamp":%d}`, now.Unix()))
	if _, err := b.Swap(t.Context(), "projects/"+one.ID()+"/locks/active.lock", lock, ""); err != nil {
		t.Fatal(err)
	}
	var locked *memory.LockedError
	if _, err := one.Push(t.Context()); !errors.As(err, &locked) || locked.Holder != "dead" {
		t.Fatalf("push beside another: %v", err)
	}
	now = now.Add(memory.DefaultLockTTL + memory.DefaultLockGrace + 2*time.Second)
	one.push()
	if _, held, err := one.Lock(t.Context()); held || err != nil {
		t.Fatalf("the lock is held after the push (%v)", err)
	}
}

// What the earlier tool leaves: no version, and the lock deleted.
func foreignManifest(t *testing.T, b *objects.Bucket) {
	one, two := newNode(t, b, "one"), newNode(t, b, "two")
	one.write("a")
	m := one.push().Manifest
	prefix := "projects/" + one.ID() + "/"
	manifest := fmt.Appendf(nil, `{"project":"garden","canonical_id":%q,"timestamp":"2026-01-02T03:04:05.678901+00:00","source_host":"one","db_size":%d,"sha256":%q,"observations":1}`,
		m.CanonicalID, m.Size, m.SHA256)
	upload(t, b, prefix+"sqlite/manifest.json", manifest)
	for _, key := range []string{prefix + "locks/active.lock", prefix + "sqlite/" + m.Version} {
		if err := b.Remove(t.Context(), key); err != nil {
			t.Fatal(err)
		}
	}
	two.pull()
	two.want("a")
}

// Manifests of other tools need not say how large the memory is. Nothing is downloaded for
// which the disk has no room, or of which there is another amount than the manifest says.
func tooLarge(t *testing.T, b *objects.Bucket) {
	var free uint64
	one := newNode(t, b, "one")
	two := newNode(t, b, "two", func(c *memory.Config) { c.FreeDisk = func(string) (uint64, error) { return free, nil } })
	one.write("a")
	m := one.push().Manifest
	refused := func(size int64, why string) {
		t.Helper()
		manifest := fmt.Appendf(nil, `{"sha256":%q,"db_size":%d,"version":%q}`, m.SHA256, size, m.Version)
		upload(t, b, "projects/"+one.ID()+"/sqlite/manifest.json", manifest)
		if _, err := two.Pull(t.Context()); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("pulled %d bytes with %d free: %v", size, free, err)
		}
		if left, err := filepath.Glob(filepath.Join(filepath.Dir(two.DB), "*")); err != nil || len(left) != 0 {
			t.Errorf("left behind: %v, %v", left, err)
		}
	}
	refused(0, "make room")
	refused(m.Size, "make room")
	free = 1 << 40
	refused(1<<50, "not what the manifest names")
	refused(m.Size-1, "not what the manifest names")
	upload(t, b, "projects/"+one.ID()+"/sqlite/manifest.json", fmt.Appendf(nil, `{"sha256":%q,"version":%q}`, m.SHA256, m.Version))
	two.pull()
	two.want("a")
}

func upload(t *testing.T, b *objects.Bucket, key string, data []byte) {
	t.Helper()
	_, info, err := b.Read(t.Context(), key)
	if err != nil && !errors.Is(err, objects.ErrNotFound) {
		t.Fatal(err)
	}
	if _, err := b.Swap(t.Context(), key, data, info.ETag); err != nil {
		t.Fatal(err)
	}
}

func damagedUpload(t *testing.T, b *objects.Bucket) {
	one, two := newNode(t, b, "one"), newNode(t, b, "two")
	one.write("a")
	m := one.push()
	upload(t, b, "projects/"+one.ID()+"/sqlite/"+m.Version, []byte("something else"))
	two.write("mine")
	if _, err := two.Pull(t.Context()); err == nil {
		t.Fatal("a damaged memory was pulled")
	}
	two.want("mine")
	if got := failing(one.Doctor(t.Context(), false)); got != "stored memory" && got != "stored memory, leadership" {
		t.Fatalf("the doctor finds %q", got)
	}
}

// tampered has somebody write into the bucket. Nothing but the project's own memory is
// ever pulled, and nothing reaches a terminal but text.
func tampered(t *testing.T, b *objects.Bucket) {
	one, two := newNode(t, b, "one"), newNode(t, b, "two")
	one.write("a")
	m := one.push().Manifest
	prefix := "projects/" + one.ID() + "/"
	overwrite(t, b, "projects/elsewhere/sqlite/claude-mem.db", []byte("not this"))
	two.write("mine")
	said := func(manifest string) (text string) {
		t.Helper()
		overwrite(t, b, prefix+"sqlite/manifest.json", []byte(manifest))
		if _, err := two.Pull(t.Context()); err == nil {
			t.Errorf("pulled by %.100s", manifest)
		} else {
			text = err.Error()
		}
		two.want("mine")
		for _, f := range two.Doctor(t.Context(), false) {
			text += f.Detail + f.Fix
		}
		return text
	}
	wrong := strings.Repeat("0", 64)
	for _, version := range []string{"../../elsewhere/sqlite/claude-mem.db", "/etc/passwd", "versions/../../elsewhere", "../../../../../etc/passwd", "."} {
		said(fmt.Sprintf(`{"sha256":%q,"db_size":8,"version":%q}`, wrong, version))
	}
	if text := said(fmt.Sprintf(`{"sha256":%q,"db_size":%d,"version":%q,"source_host":"\u001b[31mred\u0007"}`, wrong, m.Size, m.Version)); strings.ContainsAny(text, "\x1b\a") {
		t.Errorf("says %q", text)
	}
	for _, manifest := range []string{`{`, `[]`, `{"sha256":"x"}`, fmt.Sprintf(`{"sha256":%q}`, strings.Repeat("\n", 64)), `"` + strings.Repeat("x", 2<<20) + `"`,
		fmt.Sprintf(`{"sha256":%q,"db_size":1,"version":%q}`, m.SHA256, m.Version), fmt.Sprintf(`{"sha256":%q,"db_size":-1,"version":%q}`, wrong, m.Version)} {
		said(manifest)
	}
	overwrite(t, b, prefix+"locks/active.lock", []byte(`{"hostname":"\u001b[2Jevil","timestamp":9999999999}`))
	one.write("b")
	one.push() // a lock from the next century counts as none
	two.pull()
	two.want("a", "b")
	// What the doctor advises is possible.
	for i, garbage := range []string{"{", strings.Repeat("x", 2<<20), `{"sha256":"x"}`} {
		for _, name := range []string{"sqlite/manifest.json", "locks/active.lock", "leadership/lease.json"} {
			overwrite(t, b, prefix+name, []byte(garbage))
		}
		if _, err := one.Select(t.Context(), "one", 0, false); err != nil {
			t.Errorf("select over %.20q: %v", garbage, err)
		}
		one.write(fmt.Sprint("after ", i))
		one.push()
	}
	two.pull()
	two.want(one.observations()...)
	if got := failing(one.Doctor(t.Context(), false)); got != "" {
		t.Errorf("the doctor finds %q", got)
	}
}

// overwrite replaces an object without looking.
func overwrite(t *testing.T, b *objects.Bucket, key string, data []byte) {
	t.Helper()
	if _, err := b.Upload(t.Context(), key, bytes.NewReader(data), int64(len(data)), "application/json"); err != nil {
		t.Fatal(err)
	}
}

// catchesUp: a node that becomes primary behind the stored memory pulls it first, unless
// that would discard what was written there.
func catchesUp(t *testing.T, b *objects.Bucket) {
	one, two := newNode(t, b, "one"), newNode(t, b, "two")
	first, second := &memory.Syncer{Project: one.Project}, &memory.Syncer{Project: two.Project}
	sync := func(s *memory.Syncer) memory.Synced {
		t.Helper()
		out, err := s.Sync(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	choose := func(node string) {
		t.Helper()
		if _, err := one.Select(t.Context(), node, 0, false); err != nil {
			t.Fatal(err)
		}
	}
	if out := sync(second); out.Pushed != nil || out.Pulled != nil {
		t.Fatalf("a node without a memory did %+v", out)
	}
	one.write("a")
	if out := sync(first); out.Pushed == nil {
		t.Fatal("the first node did not push")
	}
	sync(second)
	two.want("a")
	one.write("b")
	sync(first)
	choose("two")
	if out := sync(second); out.Pulled == nil {
		t.Fatalf("the new primary did %+v", out)
	}
	two.want("a", "b")
	two.write("c")
	if out := sync(second); out.Pushed == nil {
		t.Fatalf("the new primary did %+v", out)
	}
	one.write("only here")
	choose("one")
	var diverged *memory.DivergedError
	if _, err := first.Sync(t.Context()); !errors.As(err, &diverged) || diverged.PushedBy != "two" {
		t.Fatalf("a primary that would discard a memory: %v", err)
	}
	one.want("a", "b", "only here")
	one.push()
	if out := sync(second); out.Pulled == nil {
		t.Fatalf("the former primary did %+v", out)
	}
	two.want("a", "b", "only here")
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

func failing(found []memory.Finding) string {
	names := ""
	for _, f := range found {
		if !f.OK {
			if names != "" {
				names += ", "
			}
			names += f.Name
		}
	}
	return names
}

func bootstrap(t *testing.T, b *objects.Bucket) {
	one := newNode(t, b, "one", func(c *memory.Config) { c.Primary = "two" })
	one.write("a")
	var not *memory.NotPrimaryError
	if _, err := one.Push(t.Context()); !errors.As(err, &not) || not.Primary != "two" {
		t.Fatalf("push of a node that is not the configured primary: %v", err)
	}
	other := newNode(t, b, "one", func(c *memory.Config) { c.Project = "orchard" })
	other.write("a")
	other.push()
	noted := ""
	for _, f := range other.Doctor(t.Context(), false) {
		if f.Note || !f.OK {
			noted += f.Name
		}
	}
	if noted != "leadership" {
		t.Fatalf("the doctor finds %q", noted)
	}
	if _, err := other.Select(context.WithoutCancel(t.Context()), "one", 0, false); err != nil {
		t.Fatal(err)
	}
	if got := failing(other.Doctor(t.Context(), false)); got != "" {
		t.Fatalf("the doctor finds %q", got)
	}
}
