package lifecycle_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/audit"
	"github.com/bloom-runtime/bloom/internal/lifecycle"
)

// at is the time of the tests, in Unix milliseconds.
const at = int64(1_700_000_000_000)

// known is a worker that registered at a time as process "p".
func known(t *testing.T, now int64) lifecycle.KnownWorker {
	t.Helper()
	c, err := lifecycle.RegisterWorker(lifecycle.KnownWorker{}, bloom.WorkerSpec{
		Name: "w", URL: "http://w", IPAddrs: []string{"10.0.0.1"}, InstanceID: "p",
		Capabilities: bloom.Capabilities{ClaudeCLI: true, MaxConcurrency: 2, Labels: []string{"gpu"}},
	}, now)
	if err != nil {
		t.Fatal(err)
	}
	return c.Worker
}

// wantAudit checks the audit action and detail of a change.
func wantAudit(t *testing.T, c lifecycle.WorkerChange, action, detail string) {
	t.Helper()
	if c.Action != action || c.Detail != detail {
		t.Errorf("audited as %q: %q; want %q: %q", c.Action, c.Detail, action, detail)
	}
}

func TestAnUnknownWorkerRegisters(t *testing.T) {
	t.Parallel()
	c, err := lifecycle.RegisterWorker(lifecycle.KnownWorker{}, bloom.WorkerSpec{Name: "w", InstanceID: "p", Capabilities: bloom.Capabilities{MaxConcurrency: 99}}, at)
	if err != nil || !c.Created {
		t.Fatalf("%+v, %v", c, err)
	}
	wantAudit(t, c, audit.ActionWorkerRegistered, "Registered")
	when := at
	want := lifecycle.KnownWorker{
		Worker: bloom.Worker{
			ID: "w", NodeID: "w", Status: bloom.WorkerOnline, RegisteredAt: at, LastHeartbeat: &when, Agents: []string{}, IPAddrs: []string{}, AgentVersion: "unknown", InstallMethod: "manual",
			Capabilities: bloom.Capabilities{MaxConcurrency: bloom.MaxConcurrency, Labels: []string{}},
		},
		InstanceID: "p", InstanceSeen: at,
	}
	if d := cmp.Diff(want, c.Worker); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if c.Worker.ConflictsWith("p", true, at) {
		t.Error("a process conflicts with itself")
	}
}

func TestAWorkerRegistersAgain(t *testing.T) {
	t.Parallel()
	was := known(t, at)
	was.Draining, was.ControlDrain, was.ObsCount = true, true, 7
	gone := lifecycle.RemoveWorker(was).Worker
	for name, c := range map[string]struct {
		was               lifecycle.KnownWorker
		instance          string
		after             time.Duration
		refused           bool
		created, draining bool
		keepsCount        bool
	}{
		"the same process keeps its drain":      {was: was, instance: "p", draining: true, keepsCount: true},
		"a person without a process does, too":  {was: was, draining: true, keepsCount: true},
		"another one while the first is alive":  {was: was, instance: "q", after: bloom.OfflineAfter - 1, refused: true},
		"another one after an unreported end":   {was: was, instance: "q", after: bloom.OfflineAfter, draining: true, keepsCount: true},
		"the first is known from a clock ahead": {was: was, instance: "q", after: -bloom.OfflineAfter, draining: true, keepsCount: true},
		"one that was removed starts again":     {was: gone, instance: "q", created: true},
	} {
		now := at + c.after.Milliseconds()
		got, err := lifecycle.RegisterWorker(c.was, bloom.WorkerSpec{Name: "w", InstanceID: c.instance}, now)
		if c.refused {
			if !errors.Is(err, bloom.ErrWorkerConflict) {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		w := got.Worker
		registered := at
		if c.created {
			registered = now
		}
		if err != nil || got.Created != c.created || w.Draining != c.draining || w.ControlDrain != c.draining || (w.ObsCount == 7) != c.keepsCount || w.Removed ||
			w.RegisteredAt != registered || lifecycle.LastContact(w.Worker) != now {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		if c.instance != "" && (w.InstanceID != c.instance || w.InstanceSeen != now) {
			t.Errorf("%s: the process is %q, seen at %d", name, w.InstanceID, w.InstanceSeen)
		}
	}
}

func TestAWorkerThatReportsItsStopIsOffline(t *testing.T) {
	t.Parallel()
	is := known(t, at)
	for _, step := range []struct {
		name           string
		says           bloom.WorkerStatus
		action, detail string
	}{
		{"it goes", bloom.WorkerOffline, audit.ActionWorkerOffline, "Reported that it goes offline"},
		{"it says so once more", bloom.WorkerOffline, audit.ActionWorkerUpdated, "Registered again"},
		{"it comes back", "", audit.ActionWorkerUpdated, "Registered again"},
		{"it is in trouble", bloom.WorkerError, audit.ActionWorkerUpdated, "Registered again"},
		{"it goes in trouble", bloom.WorkerOffline, audit.ActionWorkerOffline, "Reported that it goes offline"},
	} {
		c, err := lifecycle.RegisterWorker(is, bloom.WorkerSpec{Name: "w", Status: step.says, InstanceID: "p"}, at)
		if err != nil || c.Action != step.action || c.Detail != step.detail {
			t.Errorf("%s: audited as %q: %q, %v", step.name, c.Action, c.Detail, err)
		}
		is = c.Worker
	}
	c, err := lifecycle.RegisterWorker(lifecycle.KnownWorker{}, bloom.WorkerSpec{Name: "w", Status: bloom.WorkerOffline}, at)
	if err != nil {
		t.Fatal(err)
	}
	wantAudit(t, c, audit.ActionWorkerRegistered, "Registered")
}

func TestAWorkerDrainsWhileEitherSaysSo(t *testing.T) {
	t.Parallel()
	is := known(t, at)
	for i, step := range []struct {
		rule        func(lifecycle.KnownWorker, bool) lifecycle.WorkerChange
		drain, want bool
		detail      string
	}{
		{lifecycle.FollowDrain, false, false, ""},
		{lifecycle.FollowDrain, true, true, "Drained at the control plane: takes no more work"},
		{lifecycle.FollowDrain, true, true, ""},
		{lifecycle.DrainWorker, false, true, ""},
		{lifecycle.DrainWorker, true, true, "Drained: takes no more work"},
		{lifecycle.FollowDrain, false, true, "Undrained at the control plane"},
		{lifecycle.DrainWorker, false, false, "Undrained"},
	} {
		c := step.rule(is, step.drain)
		if is = c.Worker; is.Draining != step.want || c.Detail != step.detail || (c.Action != "") != (step.detail != "") {
			t.Errorf("step %d: %+v", i, c)
		}
	}
}

func TestContactsAreWrittenRarely(t *testing.T) {
	t.Parallel()
	was := known(t, at)
	syncing := was
	syncing.Status = bloom.WorkerSyncing
	every := lifecycle.ContactInterval.Milliseconds()
	if c := was.Contact("p", at+every-1); c.Contact || c.Action != "" || c.Worker.InstanceSeen != at {
		t.Errorf("too soon: %+v", c)
	}
	for name, c := range map[string]lifecycle.WorkerChange{
		"late enough":                    was.Contact("p", at+every),
		"no name means the known one":    was.Contact("", at+every),
		"the clock was set back":         was.Contact("p", at-1),
		"a process of which none knew":   was.Contact("q", at+1),
		"a long time after":              was.Contact("p", at+100*every),
		"it is not offline, but syncing": syncing.Contact("p", at+every),
	} {
		if !c.Contact || c.Action != "" || *c.Worker.LastHeartbeat != c.Worker.InstanceSeen || c.Worker.InstanceSeen == at || c.Worker.InstanceID == "" {
			t.Errorf("%s: %+v", name, c)
		}
	}
	if *was.LastHeartbeat != at {
		t.Error("what was known before has changed")
	}
}

func TestASilentWorkerComesBackByAContact(t *testing.T) {
	t.Parallel()
	for _, status := range []bloom.WorkerStatus{bloom.WorkerOffline, bloom.WorkerUnknown} {
		was := known(t, at)
		was.Status = status
		c := was.Contact("p", at+1)
		wantAudit(t, c, audit.ActionWorkerOnline, "Contact again")
		if c.Worker.Status != bloom.WorkerOnline || *c.Worker.LastHeartbeat != at+1 {
			t.Errorf("from %s: %+v", status, c.Worker)
		}
	}
}
