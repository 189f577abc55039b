package store_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	_ "modernc.org/sqlite" // the driver

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/pgtest"
	"github.com/bloom-runtime/bloom/internal/schema"
	"github.com/bloom-runtime/bloom/internal/store/postgres"
	"github.com/bloom-runtime/bloom/internal/store/sqlite"
	"github.com/bloom-runtime/bloom/internal/store/storetest"
)

// upgraded opens databases that an earlier version has left, with tasks and workers
// in every state: testdata/version4.* are dumps of what it wrote.
// more is SQL that adds to them.
var upgraded = map[string]func(t *testing.T, clock bloom.Clock, more string) (bloom.Store, error){
	"sqlite": func(t *testing.T, clock bloom.Clock, more string) (bloom.Store, error) {
		path := filepath.Join(t.TempDir(), "bloom.db")
		db, err := sql.Open("sqlite", path)
		if err != nil {
			return nil, err
		}
		if _, err = db.ExecContext(t.Context(), dump(t, "version4.sqlite.sql")+more); err != nil {
			return nil, err
		}
		if err := db.Close(); err != nil {
			return nil, err
		}
		return sqlite.Open(t.Context(), sqlite.Config{Path: path, Clock: clock})
	},
	"postgresql": func(t *testing.T, clock bloom.Clock, more string) (bloom.Store, error) {
		url := pgtest.Start(t)
		c, err := pgx.Connect(t.Context(), url)
		if err != nil {
			return nil, err
		}
		defer func() { _ = c.Close(context.Background()) }()
		if _, err := c.Exec(t.Context(), dump(t, "version4.postgresql.sql")+"SET search_path = public;\n"+more); err != nil {
			return nil, err
		}
		return postgres.Open(t.Context(), postgres.Config{URL: url, Clock: clock})
	},
}

func dump(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestWhatAnEarlierVersionLeftLivesOn(t *testing.T) {
	t.Parallel()
	for name, open := range upgraded {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clock := storetest.NewClock()
			clock.Advance(130 * time.Second) // a moment after the last change
			s, err := open(t, clock, "")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
			e := &elder{T: t, s: s, tasks: map[string]bloom.Task{}}
			e.fill()
			e.search()
			e.read()
			e.goOn()
			clock.Advance(time.Hour)
			e.finish()
			if err := storetest.CheckInvariants(t.Context(), s); err != nil {
				t.Error(err)
			}
			if did, err := s.RemoveTasks(t.Context(), bloom.RemoveRequest{OlderThan: -time.Hour}); err != nil || did.Tasks == 0 {
				t.Errorf("removed %+v, %v", did, err)
			}
			if err := storetest.CheckInvariants(t.Context(), s); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestTasksQueuedBeforeTheirLabelsWereHashedAreClaimed is about a queue whose index held
// the labels themselves. Some sort and encode differently in SQL and Go.
func TestTasksQueuedBeforeTheirLabelsWereHashedAreClaimed(t *testing.T) {
	t.Parallel()
	const id = "0199a000-0000-7000-8000-0000000000aa"
	labels := []string{"z", "é,\n", `a"<b>`, "\U0001F600", "z"}
	more := fmt.Sprintf(`INSERT INTO llm_tasks (seq, id, status, gate, updated_at, run_at, created_at, attempts, max_attempts, label_key, labels, context_id,
		agent_slug, desired_format, timeout_sec, budget, prompt)
		VALUES (1000000, '%s', 'queued', 'open', 1, 1, 1, 0, 1, '%[2]s', '%[2]s', 'labelled', 'a', 'text', 60, 0, 'do');`, id, schema.ListJSON(labels))
	for name, open := range upgraded {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := open(t, storetest.NewClock(), more)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
			_, _, err = s.RegisterWorker(t.Context(), bloom.WorkerSpec{
				Name: "labelled", Capabilities: bloom.Capabilities{ClaudeCLI: true, MaxConcurrency: bloom.MaxConcurrency, Labels: labels},
			}, "w")
			if err != nil {
				t.Fatal(err)
			}
			got, err := s.Claim(t.Context(), bloom.ClaimRequest{WorkerID: "labelled", Max: bloom.MaxConcurrency})
			if err != nil || !slices.ContainsFunc(got.Leases, func(l bloom.LeasedTask) bool { return l.Task.ID == id }) {
				t.Errorf("claimed %+v, %v", got, err)
			}
		})
	}
}

// earlierDrains are workers in every state of draining that an earlier version left: what
// it had stored, and where the worker is drained afterwards.
var earlierDrains = map[string]struct {
	draining, followed int
	number, told       int64 // of the control plane's order, and of one that only the worker reported
	runtime, control   bool
}{
	"never drained":                                {},
	"drained at the runtime":                       {draining: 1, runtime: true},
	"drained at the control plane":                 {draining: 1, followed: 1, number: 3, control: true},
	"drained there, without a number":              {draining: 1, followed: 1, control: true},
	"drained there, undrained at the runtime":      {followed: 1, number: 3},
	"drained there, then reported by the worker":   {draining: 1, followed: 1, number: 3, told: 5, control: true},
	"undrained at the control plane":               {number: 4},
	"undrained there, then at the runtime":         {draining: 1, number: 4, runtime: true},
	"reported by the worker":                       {draining: 1, told: 5, runtime: true},
	"reported by the worker after an undrain":      {draining: 1, number: 4, told: 5, runtime: true},
	"reported by the worker, undrained":            {told: 5},
	"forgotten by the control plane":               {number: -3},
	"forgotten there, drained at the runtime":      {draining: 1, number: -3, runtime: true},
	"forgotten there, then reported":               {draining: 1, number: -3, told: 5, runtime: true},
	"forgotten there, then reported and undrained": {number: -3, told: 5},
}

func TestADrainedWorkerOfAnEarlierVersionStaysDrained(t *testing.T) {
	t.Parallel()
	var more strings.Builder
	for name, was := range earlierDrains {
		fmt.Fprintf(&more, `INSERT INTO workers (id, node_id, url, status, claude_cli, max_concurrency, labels, ip_addrs, db_sha, registered_at, agent_version, os_info,
			install_method, instance_id, draining, followed_drain, followed_order, told_order)
			SELECT '%s', node_id, url, status, claude_cli, max_concurrency, labels, ip_addrs, db_sha, registered_at, agent_version, os_info,
			install_method, instance_id, '%d', '%d', %d, %d FROM workers WHERE id = 'w';
			`, name, was.draining, was.followed, was.number, was.told)
	}
	for name, open := range upgraded {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := open(t, storetest.NewClock(), more.String())
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			}()
			for name, want := range earlierDrains {
				w, _, err := s.Worker(t.Context(), name)
				if err != nil || w.RuntimeDrain != want.runtime || w.ControlDrain != want.control || w.Draining != (want.runtime || want.control) {
					t.Errorf("%s: %+v, %v", name, w, err)
				}
				// Each level is lowered where it was raised, and nothing of the old state comes back.
				if w, err = s.FollowDrain(t.Context(), name, false, "membridge"); err != nil || w.Draining != want.runtime {
					t.Errorf("%s, undrained at the control plane: %+v, %v", name, w, err)
				}
				if w, err = s.DrainWorker(t.Context(), name, false, "me"); err != nil || w.Draining {
					t.Errorf("%s, undrained at both: %+v, %v", name, w, err)
				}
			}
		})
	}
}

// elder is a store with an earlier version's data, its tasks by their context, the
// ordered ones by their prompt.
type elder struct {
	*testing.T
	s     bloom.Store
	tasks map[string]bloom.Task
	held  []string
}

func (e *elder) ok(err error) {
	e.Helper()
	if err != nil {
		e.Fatal(err)
	}
}

// fill takes the tasks into their contexts.
func (e *elder) fill() {
	if list, _, err := e.s.Contexts(e.Context(), bloom.ContextQuery{}); err != nil || len(list) != 0 {
		e.Errorf("contexts before they are filled: %+v, %v", list, err)
	}
	for more := true; more; {
		var err error
		more, err = e.s.FillContexts(e.Context())
		e.ok(err)
	}
}

// search finds tasks that are older than the index.
func (e *elder) search() {
	find := func() (contexts []string) {
		found, _, err := e.s.Tasks(e.Context(), bloom.TaskQuery{Text: "do cancelled"})
		e.ok(err)
		for _, t := range found {
			contexts = append(contexts, t.ContextID)
		}
		return contexts
	}
	if got := find(); len(got) != 0 {
		e.Errorf("found %v before they are in the index", got)
	}
	for more := true; more; {
		var err error
		_, more, err = e.s.IndexTasks(e.Context(), func(context.Context, string, int) (string, error) { return "", errors.New("away") })
		e.ok(err)
	}
	if got := find(); !slices.Equal(got, []string{"cancelled"}) {
		e.Errorf("found %v, want what was cancelled", got)
	}
}

// read finds everything in the state in which it was left.
func (e *elder) read() {
	e.ok(storetest.CheckInvariants(e.Context(), e.s))
	all, _, err := e.s.Tasks(e.Context(), bloom.TaskQuery{})
	e.ok(err)
	for _, t := range slices.Backward(all) {
		name := t.ContextID
		if t.Policy.Ordered {
			name = t.Prompt
		} else if _, second := e.tasks[name]; second {
			name += " again"
		}
		e.tasks[name] = t
	}
	for name, status := range map[string]bloom.TaskStatus{
		"dead": bloom.TaskDead, "expired": bloom.TaskQueued, "completed": bloom.TaskCompleted, "content elsewhere": bloom.TaskCompleted, "failed": bloom.TaskFailed,
		"retried": bloom.TaskQueued, "cancelled": bloom.TaskCancelled, "requeued": bloom.TaskQueued, "given back": bloom.TaskQueued, "leased": bloom.TaskLeased,
		"running": bloom.TaskRunning, "called off": bloom.TaskRunning, "open": bloom.TaskQueued, "labelled": bloom.TaskQueued, "completed again": bloom.TaskQueued,
		"delayed": bloom.TaskQueued, "number 0": bloom.TaskQueued, "number 1": bloom.TaskQueued, "number 2": bloom.TaskQueued,
	} {
		if e.tasks[name].Status != status {
			e.Errorf("%s is %q, want %q", name, e.tasks[name].Status, status)
		}
	}
	st, err := e.s.Stats(e.Context())
	if err != nil || st.Tasks.Total != 19 || st.Leases.Active != 3 {
		e.Errorf("stats: %+v, %v", st, err)
	}
	if results, err := e.s.Results(e.Context(), e.tasks["completed"].ID); err != nil || len(results) != 1 || results[0].Output == nil {
		e.Errorf("the results of a completed task: %+v, %v", results, err)
	}
	if drained, err := e.s.ControlDrained(e.Context()); err != nil || !slices.Equal(drained, []string{"drained"}) {
		e.Errorf("drained at the control plane: %v, %v", drained, err)
	}
	if w, _, err := e.s.Worker(e.Context(), "drained"); err != nil || !w.Draining {
		e.Errorf("the drained worker: %+v, %v", w, err)
	}
	n := storetest.Plain("completed")
	n.IdempotencyScope, n.Spec.IdempotencyKey = "client", "once"
	if first, replayed, err := e.s.CreateTask(e.Context(), n); err != nil || !replayed || first.ID != e.tasks["completed"].ID {
		e.Errorf("an earlier key again: %s, %v, %v", first.ID, replayed, err)
	}
}

// claim is the worker's next look; it answers the contexts of what it was given.
func (e *elder) claim() (given []string, res bloom.ClaimResult) {
	e.Helper()
	res, err := e.s.Claim(e.Context(), bloom.ClaimRequest{WorkerID: "w", InstanceID: "w-1", Max: 8, TTLSec: 7200, Held: e.held, Renew: true})
	e.ok(err)
	for _, l := range res.Leases {
		e.held = append(e.held, l.Lease.ID)
		given = append(given, l.Task.ContextID)
		if l.Task.Prompt == "" {
			e.Errorf("%s comes without its prompt", l.Task.ContextID)
		}
	}
	return given, res
}

// goOn is what the worker does that held three tasks all the while.
func (e *elder) goOn() {
	_, leases, err := e.s.Worker(e.Context(), "w")
	e.ok(err)
	for _, l := range leases {
		e.held = append(e.held, l.ID)
	}
	given, res := e.claim()
	if len(res.Renewed) != 3 || len(res.Cancel) != 1 || len(res.Lost) != 0 || len(given) != 5 || given[0] != "labelled" {
		e.Errorf("the worker holds %d and is given %v: %+v", len(leases), given, res)
	}
	lease := *e.tasks["running"].LeaseID
	last, err := e.s.AppendEvents(e.Context(), e.tasks["running"].ID, lease, []bloom.WorkerEvent{{Seq: 1, Type: "text"}, {Seq: 2, Type: "text"}})
	e.ok(err)
	if events, err := e.s.Events(e.Context(), e.tasks["running"].ID, 0, 0); err != nil || int64(len(events)) != last {
		e.Errorf("the stream has %d events and ends at %d: %v", len(events), last, err)
	}
}

// finish completes everything that is given out until there is no more.
func (e *elder) finish() {
	for done := 0; ; {
		_, leases, err := e.s.Worker(e.Context(), "w")
		e.ok(err)
		if len(leases) == 0 {
			if done < 10 {
				e.Errorf("only %d tasks were given out", done)
			}
			break
		}
		for _, l := range leases {
			_, err := e.s.Complete(e.Context(), storetest.Success(l.TaskID, l.ID))
			e.ok(err)
			done++
		}
		e.held = nil
		e.claim()
	}
	for _, name := range []string{"failed", "dead", "cancelled"} {
		_, err := e.s.Requeue(e.Context(), e.tasks[name].ID, "me")
		e.ok(err)
	}
	all, _, err := e.s.Tasks(e.Context(), bloom.TaskQuery{})
	e.ok(err)
	for _, t := range all {
		if !t.Status.Terminal() && !slices.Contains([]string{"failed", "dead", "cancelled"}, t.ContextID) {
			e.Errorf("%s (%s) is still %s", t.ContextID, t.Prompt, t.Status)
		}
	}
}
