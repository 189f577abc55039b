package memory_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
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
		"a lock of a killed container does not block a push":        killedContainer,
		"a missing upload is sent again":                            missingUpload,
		"a memory that the storage lost is sent again":              emptiedBucket,
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
	one := newNode(t, b, "one", func(c *memory.Config) { c.LockTTL = 100 * 365 * 24 * time.Hour })
	one.write("a")
	one.push()
	key := "projects/" + one.ID() + "/locks/active.lock"
	lock := func(lock string, age time.Duration) {
		t.Helper()
		one.write("b")
		overwrite(t, b, key, fmt.Appendf(nil, lock, time.Now().Add(-age).Unix()))
	}
	lock(`{"hostname":"one","timestamp":%d,"nonce":"x","boot":"earlier"}`, 0)
	one.push()
	lock(`{"hostname":"one","timestamp":%d}`, 20*365*24*time.Hour) // of an earlier version
	one.push()
	var locked *memory.LockedError
	lock(`{"hostname":"one","timestamp":%d}`, 0) // of the earlier script, which never removes its own
	one.push()
	for _, other := range []string{`{"hostname":"two","timestamp":%d,"nonce":"x","boot":"earlier"}`, `{"hostname":"two","timestamp":%d}`} {
		lock(other, 0)
		if _, err := one.Push(t.Context()); !errors.As(err, &locked) {
			t.Errorf("beside %s: %v", other, err)
		}
	}
}

// killedContainer has a push killed whose process id and namespace mean nothing to the next push.
func killedContainer(t *testing.T, c objects.Config) {
	b := open(t, c)
	one := newNode(t, b, "one")
	one.write("a")
	one.push()
	key := "projects/" + one.ID() + "/locks/active.lock"
	foreign := func() {
		t.Helper()
		var l map[string]any
		data, _, err := b.Read(t.Context(), key)
		if err = errors.Join(err, json.Unmarshal(data, &l)); err != nil {
			t.Fatal(err)
		}
		l["pid"], l["machine"] = os.Getpid(), "another"
		data, err = json.Marshal(l)
		if err != nil {
			t.Fatal(err)
		}
		overwrite(t, b, key, data)
	}
	one.write("b")
	if killed, _ := (child{Bucket: c, Node: "one", DB: one.DB, KillPoint: "uploaded"}).run(t); !killed {
		t.Fatal("the push was not killed")
	}
	foreign()
	one.push()
	running := newNode(t, b, "one", sameDB(one), at("lock taken", func() {
		foreign()
		var locked *memory.LockedError
		if _, err := one.Push(t.Context()); !errors.As(err, &locked) {
			t.Errorf("beside a push in another container: %v", err)
		}
	}))
	one.write("c")
	_, _ = running.Push(t.Context()) // its lock was replaced
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
	one, two := newNode(t, b, "one"), newNode(t, b, "two")
	one.write("a")
	first, second := &memory.Syncer{Project: one.Project}, &memory.Syncer{Project: two.Project}
	sync := func(s *memory.Syncer) memory.Synced {
		t.Helper()
		out, err := s.Sync(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	if out := sync(first); out.Pushed == nil {
		t.Fatalf("did %+v", out)
	}
	sync(second)
	one.write("b")
	sync(first)
	two.write("mine")
	for o, err := range b.List(t.Context(), "projects/") {
		if err = errors.Join(err, b.Remove(t.Context(), o.Key)); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range []*memory.Syncer{second, first} { // nobody may choose but a person
		var lost *memory.LostError
		if out, err := s.Sync(t.Context()); !errors.As(err, &lost) {
			t.Errorf("%s did %+v, %v", s.Node, out, err)
		}
	}
	if _, err := one.Select(t.Context(), "one", 0, false); err != nil {
		t.Fatal(err)
	}
	if out := sync(first); out.Pushed == nil {
		t.Errorf("did %+v", out)
	}
	sync(second)
	two.want("a", "b")
}
