package store_test

import (
	"context"
	"database/sql"
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
	"github.com/bloom-runtime/bloom/internal/store/contract"
	"github.com/bloom-runtime/bloom/internal/store/postgres"
	"github.com/bloom-runtime/bloom/internal/store/sqlite"
	"github.com/bloom-runtime/bloom/internal/store/storetest"
	"github.com/bloom-runtime/bloom/internal/timing"
)

// upgraded opens databases of an earlier version, with tasks and workers in every state:
// testdata/version4.* are dumps. more is SQL that adds to them.
var upgraded = map[string]func(t *testing.T, clock timing.Clock, more string) (contract.Store, error){
	"sqlite": func(t *testing.T, clock timing.Clock, more string) (contract.Store, error) {
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
	"postgresql": func(t *testing.T, clock timing.Clock, more string) (contract.Store, error) {
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

func TestDataOfAnEarlierVersionIsUpgraded(t *testing.T) {
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
			e := &earlierStore{T: t, s: s, tasks: map[string]bloom.Task{}}
			e.fill()
			e.search()
			e.read()
			e.goOn()
			clock.Advance(time.Hour)
			e.finish()
			if err := storetest.CheckInvariants(t.Context(), s); err != nil {
				t.Error(err)
			}
			if did, err := s.RemoveTasks(t.Context(), contract.RemoveRequest{OlderThan: -time.Hour}); err != nil || did.Tasks == 0 {
				t.Errorf("removed %+v, %v", did, err)
			}
			if err := storetest.CheckInvariants(t.Context(), s); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestTasksQueuedBeforeTheirLabelsWereHashedAreClaimed covers queues whose index has the labels
// themselves. Some sort and encode differently in SQL and Go.
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
			got, err := s.Claim(t.Context(), contract.ClaimRequest{WorkerID: "labelled", Max: bloom.MaxConcurrency})
			if err != nil || !slices.ContainsFunc(got.Leases, func(l bloom.LeasedTask) bool { return l.Task.ID == id }) {
				t.Errorf("claimed %+v, %v", got, err)
			}
		})
	}
}

// earlierDrains are workers in every drain state of an earlier version: what was stored, and where
// the worker is drained after the upgrade.
var earlierDrains = map[string]struct {
	draining, followed int
	number, reported   int64 // the number of the control plane's drain, and of one that only the worker reported
	runtime, control   bool
}{
	"never drained":                                {},
	"drained at the runtime":                       {draining: 1, runtime: true},
	"drained at the control plane":                 {draining: 1, followed: 1, number: 3, control: true},
	"drained there, without a number":              {draining: 1, followed: 1, control: true},
	"drained there, undrained at the runtime":      {followed: 1, number: 3},
	"drained there, then reported by the worker":   {draining: 1, followed: 1, number: 3, reported: 5, control: true},
	"undrained at the control plane":               {number: 4},
	"undrained there, then at the runtime":         {draining: 1, number: 4, runtime: true},
	"reported by the worker":                       {draining: 1, reported: 5, runtime: true},
	"reported by the worker after an undrain":      {draining: 1, number: 4, reported: 5, runtime: true},
	"reported by the worker, undrained":            {reported: 5},
	"forgotten by the control plane":               {number: -3},
	"forgotten there, drained at the runtime":      {draining: 1, number: -3, runtime: true},
	"forgotten there, then reported":               {draining: 1, number: -3, reported: 5, runtime: true},
	"forgotten there, then reported and undrained": {number: -3, reported: 5},
}

func TestADrainedWorkerOfAnEarlierVersionStaysDrained(t *testing.T) {
	t.Parallel()
	var more strings.Builder
	for name, was := range earlierDrains {
		fmt.Fprintf(&more, `INSERT INTO workers (id, node_id, url, status, claude_cli, max_concurrency, labels, ip_addrs, db_sha, registered_at, agent_version, os_info,
			install_method, instance_id, draining, followed_drain, followed_order, told_order)
			SELECT '%s', node_id, url, status, claude_cli, max_concurrency, labels, ip_addrs, db_sha, registered_at, agent_version, os_info,
			install_method, instance_id, '%d', '%d', %d, %d FROM workers WHERE id = 'w';
			`, name, was.draining, was.followed, was.number, was.reported)
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
				// Each drain is undone where it was made, and no earlier state returns.
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
