package memory_test

import (
	"context"
	"errors"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom/internal/memory"
	"github.com/bloom-runtime/bloom/internal/miniotest"
	"github.com/bloom-runtime/bloom/internal/objects"
)

func TestMeanwhile(t *testing.T) {
	t.Parallel()
	server := miniotest.Shared(t)
	for name, test := range map[string]func(*testing.T, objects.Config){
		"an older snapshot does not replace a newer push":           olderSnapshot,
		"a selected node does not replace the last push before":     lastPushBefore,
		"a primary that is selected again goes on with its push":    selectedAgain,
		"a push does not remove the upload of the next one":         nextUpload,
		"the doctor removes no memory that was pushed meanwhile":    doctorMeanwhile,
		"a first pull spares what the plugin creates meanwhile":     createdMeanwhile,
		"a first pull spares the log of a plugin that has begun":    begunMeanwhile,
		"a first pull does not apply an earlier database's log":     leftoverLog,
		"a plugin that has an empty database open sees the new one": emptyDatabase,
		"a new primary spares what the plugin writes meanwhile":     writtenMeanwhile,
		"a node that becomes primary meanwhile keeps its memory":    promotedMeanwhile,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, server.Bucket())
		})
	}
}

func olderSnapshot(t *testing.T, c objects.Config) {
	b := open(t, c)
	one, reader := newNode(t, b, "one"), newNode(t, b, "reader")
	one.write("a")
	slow := newNode(t, b, "one", sameDB(one), at("snapshot checked", func() {
		one.write("b")
		one.push()
	}))
	if out, err := slow.Push(t.Context()); err == nil {
		t.Errorf("pushed %+v over a newer memory", out)
	}
	reader.pull()
	reader.want("a", "b")
	if out := slow.push(); !out.Unchanged {
		t.Errorf("pushed again: %+v", out)
	}
}

func lastPushBefore(t *testing.T, c objects.Config) {
	b := open(t, c)
	selected, pushed := make(chan struct{}), make(chan struct{})
	two := newNode(t, b, "two", at("snapshot checked", func() { close(selected); <-pushed }))
	overtaken := make(chan error, 1)
	one := newNode(t, b, "one")
	one.write("a")
	one.push()
	two.write("mine")
	one.write("last")
	late := newNode(t, b, "one", sameDB(one), at("push recorded, manifest not written", func() {
		if _, err := two.Select(t.Context(), "two", 0, false); err != nil {
			t.Error(err)
		}
		go func() {
			_, err := two.Push(context.WithoutCancel(t.Context()))
			overtaken <- err
		}()
		<-selected
	}))
	_, err := late.Push(t.Context())
	close(pushed)
	if err := errors.Join(err, <-overtaken); err == nil {
		t.Error("both pushed")
	}
	reader := newNode(t, b, "reader")
	reader.pull()
	reader.want("a", "last")
}

func selectedAgain(t *testing.T, c objects.Config) {
	b := open(t, c)
	var one *node
	one = newNode(t, b, "one", at("uploaded", func() {
		s := memory.Selection{Primary: "one", Epoch: 7, At: time.Now(), Until: time.Now().Add(time.Hour)}
		if _, changed, err := one.Follow(t.Context(), s); err != nil || !changed {
			t.Error(changed, err)
		}
	}))
	one.write("a")
	if out := one.push(); out.Epoch != 7 {
		t.Errorf("pushed in epoch %d", out.Epoch)
	}
}

func nextUpload(t *testing.T, c objects.Config) {
	b := open(t, c)
	uploaded, swept, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	one := newNode(t, b, "one")
	one.write("a")
	next := newNode(t, b, "one", sameDB(one), func(c *memory.Config) { c.ForcePush = true },
		at("uploaded", func() { close(uploaded); <-swept }))
	first := newNode(t, b, "one", sameDB(one), at("manifest written", func() {
		one.write("b")
		go func() {
			_, err := next.Push(context.WithoutCancel(t.Context()))
			ended <- err
		}()
		<-uploaded
	}))
	first.push()
	close(swept)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	reader := newNode(t, b, "reader")
	reader.pull()
	reader.want("a", "b")
}

func doctorMeanwhile(t *testing.T, c objects.Config) {
	b := open(t, c)
	one := newNode(t, b, "one")
	one.write("a")
	one.push()
	version := one.push().Version
	pushed := false
	c.Transport = hook{func(r *http.Request) {
		if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, version) && !pushed {
			pushed = true
			one.write("b")
			one.push()
			one.write("c")
			one.push()
		}
	}}
	newNode(t, open(t, c), "doctor").Doctor(t.Context(), true)
	if !pushed {
		t.Fatal("the doctor did not verify the memory")
	}
	reader := newNode(t, b, "reader")
	reader.pull()
	reader.want("a", "b", "c")
	if got := failing(one.Doctor(t.Context(), false)); got != "" {
		t.Errorf("the doctor finds %q", got)
	}
}

func createdMeanwhile(t *testing.T, c objects.Config) {
	b := open(t, c)
	one := newNode(t, b, "one")
	one.write("a")
	one.push()
	var two *node
	two = newNode(t, b, "two", at("downloaded", func() { two.write("mine") }))
	if out, err := two.Pull(t.Context()); err == nil {
		t.Errorf("pulled %+v", out)
	}
	two.want("mine")
	out := two.pull()
	two.want("a")
	if out.Backup == "" || !out.LocalAhead && out.Observations != 1 {
		t.Errorf("pulled %+v", out)
	}
}

// begunMeanwhile has the plugin create its database and its log when the pull has found none.
func begunMeanwhile(t *testing.T, c objects.Config) {
	b := open(t, c)
	one := newNode(t, b, "one")
	one.write("a")
	one.push()
	var two *node
	two = newNode(t, b, "two", at("no database", func() {
		if _, err := os.Stat(two.DB); err != nil {
			two.write("mine")
		}
	}))
	if out, err := two.Pull(t.Context()); err == nil {
		t.Errorf("pulled %+v", out)
	}
	if log, err := os.Stat(two.DB + "-wal"); err != nil || log.Size() == 0 {
		t.Errorf("the plugin's log is gone: %v", err)
	}
	two.want("mine")
}

func emptyDatabase(t *testing.T, c objects.Config) {
	b := open(t, c)
	one, two := newNode(t, b, "one"), newNode(t, b, "two")
	one.write("a")
	one.push()
	var version int
	if err := two.rollbackPlugin().QueryRowContext(t.Context(), "PRAGMA user_version").Scan(&version); err != nil {
		t.Fatal(err)
	}
	if out := two.pull(); out.Backup != "" {
		t.Errorf("pulled %+v", out)
	}
	two.want("a")
}

func writtenMeanwhile(t *testing.T, c objects.Config) {
	b := open(t, c)
	one := newNode(t, b, "one")
	one.write("a")
	one.push()
	var two *node
	step := func() { two.write("late") }
	two = newNode(t, b, "two")
	two.pull()
	one.write("b")
	one.push()
	if _, err := one.Select(t.Context(), "two", 0, false); err != nil {
		t.Fatal(err)
	}
	writing := newNode(t, b, "two", sameDB(two), at("downloaded", step))
	var diverged *memory.DivergedError
	if out, err := (&memory.Syncer{Project: writing.Project}).Sync(t.Context()); !errors.As(err, &diverged) {
		t.Errorf("the new primary did %+v, %v", out, err)
	}
	two.want("a", "late")
}

func promotedMeanwhile(t *testing.T, c objects.Config) {
	b := open(t, c)
	one := newNode(t, b, "one")
	one.write("a")
	one.push()
	two := newNode(t, b, "two", at("downloaded", func() {
		if _, err := one.Select(t.Context(), "two", 0, false); err != nil {
			t.Error(err)
		}
	}))
	two.write("mine")
	var differs *memory.PrimaryDiffersError
	if out, err := two.Pull(t.Context()); !errors.As(err, &differs) {
		t.Errorf("the new primary did %+v, %v", out, err)
	}
	two.want("mine")
}

func leftoverLog(t *testing.T, c objects.Config) {
	b := open(t, c)
	one, two := newNode(t, b, "one"), newNode(t, b, "two")
	one.write("a")
	one.push()
	two.write("of the earlier database")
	log, err := os.ReadFile(two.DB + "-wal")
	if err != nil || len(log) == 0 {
		t.Fatal(len(log), err)
	}
	if err := errors.Join(two.db.Close(), os.Remove(two.DB), os.WriteFile(two.DB+"-wal", log, 0o600)); err != nil {
		t.Fatal(err)
	}
	two.db = nil
	two.pull()
	two.want("a")
}
