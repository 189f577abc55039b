package memory_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	_ "modernc.org/sqlite" // the plugin's database

	"github.com/bloom-runtime/bloom/internal/memory"
	"github.com/bloom-runtime/bloom/internal/objects"
)

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
	retake := newNode(t, b, "one") // the same node with an empty disk
	retake.pull()
	retake.want("a")
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

// A selection in the control plane is not followed again after a person has selected another
// node, whichever agent is restarted; a later one is.
func laterSelection(t *testing.T, b *objects.Bucket) {
	one := newNode(t, b, "one")
	at := time.Now()
	follow := func(primary string, epoch int64, at time.Time) memory.Lease {
		t.Helper()
		l, _, err := one.Follow(t.Context(), memory.Selection{Primary: primary, Epoch: epoch, At: at, Until: at.Add(time.Hour)})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	choose := func(node string, anyway bool) (err error) {
		_, err = one.Select(t.Context(), node, 0, anyway)
		return err
	}
	follow("two", 3, at)
	var elsewhere *memory.SelectedElsewhereError
	if err := choose("two", false); err != nil {
		t.Fatal(err)
	}
	if err := choose("one", false); !errors.As(err, &elsewhere) {
		t.Fatalf("selected over the control plane's selection: %v", err)
	}
	if err := choose("one", true); err != nil {
		t.Fatal(err)
	}
	if l := follow("two", 3, at); l.PrimaryNode != "one" {
		t.Errorf("the earlier selection was followed again: %+v", l)
	}
	if l := follow("two", 4, at.Add(time.Second)); l.PrimaryNode != "two" || l.Epoch < 4 {
		t.Errorf("a later selection was not followed: %+v", l)
	}
}

// selectionFromTheFuture has the control plane select with a clock that is years ahead, and
// then with the right one.
func selectionFromTheFuture(t *testing.T, b *objects.Bucket) {
	one := newNode(t, b, "one")
	choose := func(primary string, epoch int64, at time.Time) bool {
		t.Helper()
		_, changed, err := one.Follow(t.Context(), memory.Selection{Primary: primary, Epoch: epoch, At: at, Until: at.Add(time.Hour)})
		if err != nil {
			t.Fatal(err)
		}
		return changed
	}
	now := time.Now()
	wrong := now.AddDate(10, 0, 0)
	if !choose("one", 3, wrong) {
		t.Error("the selection is ignored")
	}
	if _, err := one.Select(t.Context(), "two", 0, true); err != nil || choose("one", 3, wrong) {
		t.Errorf("a person's selection does not last, %v", err)
	}
	if !choose("one", 4, now) || !choose("two", 5, now) {
		t.Error("a selection is ignored because the one before is from the future")
	}
	if choose("one", 3, now.Add(-time.Minute)) || choose("two", 5, now) {
		t.Error("an earlier selection replaces a later one")
	}
}

// leadershipAudit has a primary renew its lease, and then a project whose leadership has changed
// more often than the bucket keeps.
func leadershipAudit(t *testing.T, b *objects.Bucket) {
	now := time.Now()
	one := newNode(t, b, "one", func(c *memory.Config) { c.Now = func() time.Time { return now } })
	folder := "projects/" + one.ID() + "/leadership/audit/"
	recorded := func() (keys []string) {
		t.Helper()
		for o, err := range b.List(t.Context(), folder) {
			if err != nil {
				t.Fatal(err)
			}
			keys = append(keys, o.Key)
		}
		return keys
	}
	for i := range 3 {
		one.write(fmt.Sprint(i))
		one.push()
		now = now.Add(memory.DefaultLease)
	}
	if got := recorded(); len(got) != 1 {
		t.Errorf("the first lease and its renewals are recorded as %q", got)
	}
	for i := range memory.MaxLeadershipAudit {
		overwrite(t, b, fmt.Sprintf("%s20010101T%09d.json", folder, i), []byte("{}"))
	}
	if _, err := one.Select(t.Context(), "two", 0, false); err != nil {
		t.Fatal(err)
	}
	got := recorded()
	if len(got) != memory.MaxLeadershipAudit || strings.Contains(got[len(got)-2], "/2001") || !strings.Contains(got[len(got)-3], "/2001") {
		t.Errorf("recorded: %q", got)
	}
	for i := range 150 { // of an earlier version: whoever changes the leadership does not wait for all of them
		overwrite(t, b, fmt.Sprintf("%s20000101T%09d.json", folder, i), []byte("{}"))
	}
	now = now.Add(time.Minute)
	if _, err := one.Select(t.Context(), "one", 0, false); err != nil {
		t.Fatal(err)
	}
	if got := len(recorded()); got != memory.MaxLeadershipAudit+150+1-100 {
		t.Errorf("%d are left", got)
	}
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
		case !errors.As(err, &locked) && !errors.Is(err, memory.ErrOvertaken):
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
