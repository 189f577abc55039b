package memory_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom/internal/memory"
	"github.com/bloom-runtime/bloom/internal/miniotest"
	"github.com/bloom-runtime/bloom/internal/objects"
)

func TestRecovery(t *testing.T) {
	t.Parallel()
	server := miniotest.Shared(t)
	for name, test := range map[string]func(*testing.T, objects.Config){
		"the doctor removes nothing when the manifest is damaged":   damagedManifest,
		"the doctor removes nothing when the manifest is lost":      lostManifest,
		"an outage during a push does not block the next one":       outageInPush,
		"a lock whose answer was lost does not block the next push": lostLock,
		"a lock from before a restart does not block a push":        restartedMachine,
		"a missing upload is sent again":                            missingUpload,
		"a memory that the storage lost is sent again":              emptiedBucket,
		"a snapshot that the disk has no room for is not taken":     fullDisk,
		"a pull that the disk has no room for is not begun":         noRoomForLog,
		"a cancelled pull leaves no backup":                         cancelledPull,
		"old backups go also when the pull fails":                   oldBackups,
		"what a killed push or pull left is removed by a later one": oldLeftovers,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, server.Bucket())
		})
	}
}

// brokenManifest breaks the manifest, has the doctor repair what it can, restores it and pulls.
func brokenManifest(t *testing.T, c objects.Config, harm func(b *objects.Bucket, key string)) {
	b := open(t, c)
	one, reader := newNode(t, b, "one"), newNode(t, b, "reader")
	one.write("a")
	one.push()
	key := "projects/" + one.ID() + "/sqlite/manifest.json"
	whole, _, err := b.Read(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	harm(b, key)
	if got := failing(reader.Doctor(t.Context(), true)); got == "" {
		t.Error("the doctor finds nothing")
	}
	overwrite(t, b, key, whole)
	reader.pull()
	reader.want("a")
}

func damagedManifest(t *testing.T, c objects.Config) {
	brokenManifest(t, c, func(b *objects.Bucket, key string) { overwrite(t, b, key, []byte("{")) })
}

func lostManifest(t *testing.T, c objects.Config) {
	brokenManifest(t, c, func(b *objects.Bucket, key string) {
		if err := b.Remove(t.Context(), key); err != nil {
			t.Fatal(err)
		}
	})
}

// unreliable is a storage that is away, or loses the answers of some requests.
type unreliable struct {
	away  atomic.Bool
	loses func(*http.Request) bool
}

func (u *unreliable) RoundTrip(r *http.Request) (*http.Response, error) {
	if u.away.Load() {
		return nil, errors.New("the network is down")
	}
	res, err := http.DefaultTransport.RoundTrip(r)
	if err == nil && u.loses != nil && u.loses(r) {
		res.Body.Close()
		return nil, errors.New("the answer was lost")
	}
	return res, err
}

func outageInPush(t *testing.T, c objects.Config) {
	storage := &unreliable{}
	c.Transport, c.Tries = storage, 1
	one := newNode(t, open(t, c), "one", at("lock taken", func() { storage.away.Store(true) }))
	one.write("a")
	if _, err := one.Push(t.Context()); err == nil {
		t.Fatal("pushed to a storage that is away")
	}
	storage.away.Store(false)
	one.push()
}

func lostLock(t *testing.T, c objects.Config) {
	b, lost := open(t, c), false
	c.Transport, c.Tries = &unreliable{loses: func(r *http.Request) bool {
		before := lost
		lost = lost || r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, "active.lock")
		return lost != before
	}}, 1
	one := newNode(t, open(t, c), "one")
	one.write("a")
	if _, err := one.Push(t.Context()); err == nil {
		t.Fatal("pushed without the lock")
	}
	if _, held, err := newNode(t, b, "two").Lock(t.Context()); !held || err != nil {
		t.Fatal("the storage does not have the lock", err)
	}
	one.push()
}

func restartedMachine(t *testing.T, c objects.Config) {
	b := open(t, c)
	one := newNode(t, b, "one")
	one.write("a")
	one.push()
	key := "projects/" + one.ID() + "/locks/active.lock"
	lock := func(node string) {
		overwrite(t, b, key, fmt.Appendf(nil, `{"hostname":%q,"timestamp":%d,"nonce":"x","pid":%d,"machine":"another","boot":"earlier"}`,
			node, time.Now().Unix(), os.Getpid()))
	}
	one.write("b")
	lock("one")
	one.push()
	one.write("c")
	lock("two")
	var locked *memory.LockedError
	if _, err := one.Push(t.Context()); !errors.As(err, &locked) {
		t.Errorf("the lock of another node: %v", err)
	}
}

func missingUpload(t *testing.T, c objects.Config) {
	b := open(t, c)
	one, reader := newNode(t, b, "one"), newNode(t, b, "reader")
	one.write("a")
	first := one.push().Version
	one.write("b")
	m := one.push().Manifest
	if err := b.Remove(t.Context(), "projects/"+one.ID()+"/sqlite/"+m.Version); err != nil {
		t.Fatal(err)
	}
	if out := one.push(); out.Unchanged || out.Previous != first {
		t.Errorf("pushed %+v", out)
	}
	reader.pull()
	reader.want("a", "b")
	if out := one.push(); !out.Unchanged {
		t.Errorf("pushed again: %+v", out)
	}
}

func emptiedBucket(t *testing.T, c objects.Config) {
	b := open(t, c)
	one, reader := newNode(t, b, "one"), newNode(t, b, "reader")
	one.write("a")
	s := &memory.Syncer{Project: one.Project}
	sync := func() memory.Synced {
		out, err := s.Sync(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	if out := sync(); out.Pushed == nil {
		t.Fatalf("did %+v", out)
	}
	for o, err := range b.List(t.Context(), "projects/") {
		if err = errors.Join(err, b.Remove(t.Context(), o.Key)); err != nil {
			t.Fatal(err)
		}
	}
	if out := sync(); out.Pushed == nil {
		t.Errorf("did %+v", out)
	}
	reader.pull()
	reader.want("a")
}

// disk has this much free space.
func disk(free *uint64) func(*memory.Config) {
	return func(c *memory.Config) { c.FreeDisk = func(string) (uint64, error) { return *free, nil } }
}

func fullDisk(t *testing.T, c objects.Config) {
	free := uint64(16 << 20)
	one := newNode(t, open(t, c), "one", disk(&free))
	one.write("a")
	if _, err := one.Push(t.Context()); err == nil || !strings.Contains(err.Error(), "free disk space") {
		t.Errorf("a push: %v", err)
	}
	if err := memory.NewMeter(one.Project).Measure(t.Context()); err == nil || !strings.Contains(err.Error(), "free disk space") {
		t.Errorf("a measurement: %v", err)
	}
	free = 1 << 30
	one.push()
}

func noRoomForLog(t *testing.T, c objects.Config) {
	free := uint64(1 << 30)
	b := open(t, c)
	one, two := newNode(t, b, "one"), newNode(t, b, "two", disk(&free))
	one.fill()
	size := one.push().Size
	two.write("mine")
	free = 16<<20 + uint64(size) // for the download alone
	if _, err := two.Pull(t.Context()); err == nil || !strings.Contains(err.Error(), "free disk space") {
		t.Errorf("a pull: %v", err)
	}
	two.want("mine")
	if left := two.folders(); len(left) != 0 {
		t.Errorf("backups %q", left)
	}
	free += 2 * uint64(size)
	two.pull()
}

func cancelledPull(t *testing.T, c objects.Config) {
	b := open(t, c)
	ctx, cancel := context.WithCancel(t.Context())
	one, two := newNode(t, b, "one"), newNode(t, b, "two", at("pages put in place", cancel))
	one.fill()
	one.push()
	two.write("mine")
	if _, err := two.Pull(ctx); !errors.Is(err, context.Canceled) {
		t.Fatalf("a pull: %v", err)
	}
	two.want("mine")
	if left := two.folders(); len(left) != 0 {
		t.Errorf("backups %q", left)
	}
	two.pull()
}

func oldBackups(t *testing.T, c objects.Config) {
	now, free := time.Now(), uint64(1<<30)
	b := open(t, c)
	one := newNode(t, b, "one")
	two := newNode(t, b, "two", disk(&free), func(c *memory.Config) { c.Now = func() time.Time { return now } })
	for i := range 3 {
		one.write(fmt.Sprint(i))
		one.push()
		two.write("local")
		two.pull()
		now = now.Add(time.Second)
	}
	now, free = now.Add(memory.DefaultBackupAge+time.Hour), 0
	if _, err := two.Pull(t.Context()); err == nil {
		t.Fatal("pulled on a full disk")
	}
	if left := two.folders(); len(left) != 1 {
		t.Errorf("backups %q", left)
	}
}

func oldLeftovers(t *testing.T, c objects.Config) {
	one := newNode(t, open(t, c), "one")
	one.write("a")
	left := func(name string, age time.Duration) string {
		path := filepath.Join(filepath.Dir(one.DB), name)
		at := time.Now().Add(-age)
		if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Chtimes(path, at, at)); err != nil {
			t.Fatal(err)
		}
		return path
	}
	old := left(".bloom-memory-pull-1-2.tmp", memory.DefaultLockTTL+memory.DefaultLockGrace+time.Hour)
	used := left(".bloom-memory-snapshot-1-3.tmp", time.Hour)
	one.push()
	if _, err := os.Stat(old); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s: %v", old, err)
	}
	if _, err := os.Stat(used); err != nil {
		t.Error(err)
	}
}
