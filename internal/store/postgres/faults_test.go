package postgres_test

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/store/contract"
	"github.com/bloom-runtime/bloom/internal/store/postgres"
	"github.com/bloom-runtime/bloom/internal/store/storetest"
)

func connect(t testing.TB, url string) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

func register(t testing.TB, s contract.Store, name string, slots int, labels ...string) {
	t.Helper()
	if _, _, err := s.RegisterWorker(t.Context(), bloom.WorkerSpec{
		Name: name, InstanceID: name + "-1", Capabilities: bloom.Capabilities{ClaudeCLI: true, MaxConcurrency: slots, Labels: labels},
	}, "test"); err != nil {
		t.Fatal(err)
	}
}

// history records the results of calls.
type history struct {
	mu        sync.Mutex
	completed map[string]string // task → acknowledged output
	created   map[string]bool
	calls     [2]atomic.Int64 // that returned, by store
}

// live runs complete lifecycles of tasks until stop closes. No conflict is expected: each client
// has its own tasks.
func (h *history) live(t *testing.T, s contract.Store, client int, stop <-chan struct{}) {
	ctx := context.Background()
	for i := 0; ; i++ {
		select {
		case <-stop:
			return
		default:
		}
		n := storetest.Plain(fmt.Sprint("context ", client, " ", i))
		if _, replayed, err := s.CreateTask(ctx, n); err != nil || replayed {
			t.Errorf("create: replayed %v, %v", replayed, err)
			return
		}
		h.note(func() { h.created[n.ID] = true })
		h.calls[client%2].Add(1)
		l, _, err := s.LeaseTask(ctx, contract.LeaseRequest{TaskID: n.ID, Actor: "test"})
		if err != nil {
			t.Errorf("lease: %v", err)
			return
		}
		if _, err := s.Heartbeat(ctx, n.ID, l.ID, nil); err != nil {
			t.Errorf("heartbeat: %v", err)
			return
		}
		r := storetest.Success(n.ID, l.ID)
		if i%2 == 0 {
			r.Completion.LeaseID = "" // a client that does not name its lease
		}
		done, err := s.Complete(ctx, r)
		if err != nil || done.Replayed {
			t.Errorf("complete: replayed %v, %v", done.Replayed, err)
			return
		}
		h.note(func() { h.completed[n.ID] = *r.Content })
		h.calls[client%2].Add(1)
	}
}

// progress waits until a call has returned from each store: uninterrupted faults would only show
// how long a store retries.
func (h *history) progress(deadline <-chan time.Time) bool {
	first, second := h.calls[0].Load(), h.calls[1].Load()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if h.calls[0].Load() > first && h.calls[1].Load() > second {
				return true
			}
		case <-deadline:
			return false
		}
	}
}

func (h *history) note(fn func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	fn()
}

// TestCutConnectionsNeitherLoseNorDuplicate repeatedly kills the connections of two replicas while
// they work.
func TestCutConnectionsNeitherLoseNorDuplicate(t *testing.T) {
	t.Parallel()
	url := migrated.Start(t)
	stores := []*postgres.Store{enduring(t, url), enduring(t, url)}
	killer := connect(t, url)
	killed := 0
	endure(t, stores, func() {
		var n int
		if err := killer.QueryRow(t.Context(), `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
			WHERE pid <> pg_backend_pid() AND datname = current_database() AND backend_type = 'client backend' AND state <> 'idle'`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		killed += n
	}, func() int { return killed }, func() {})
}

// TestLostResponsesNeitherLoseNorDuplicate loses the responses to commits that have happened, and
// to all other statements.
func TestLostResponsesNeitherLoseNorDuplicate(t *testing.T) {
	t.Parallel()
	cut, url := startCutter(t, migrated.Start(t))
	stores := []*postgres.Store{enduring(t, url), enduring(t, url)}
	endure(t, stores, func() { cut.rate.Store(40) }, func() int { return int(cut.cuts.Load()) }, func() { cut.rate.Store(0) })
}

// enduring opens a store that repeats what fails for long, so that also on a slow machine no client
// sees the faults.
func enduring(t *testing.T, url string) *postgres.Store {
	t.Helper()
	s, err := postgres.Open(t.Context(), postgres.Config{URL: url, Patience: 2 * time.Minute, Transcripts: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// endure lets clients work on two replicas while fault repeats until it has hit often enough, and
// compares the acknowledged results with what is stored once it is calm. It lasts ten times as long
// with E2E_CAMPAIGN=full.
func endure(t *testing.T, stores []*postgres.Store, fault func(), hits func() int, calm func()) {
	t.Helper()
	register(t, stores[0], "w", 32)
	h := &history{completed: map[string]string{}, created: map[string]bool{}}
	stop := make(chan struct{})
	var clients sync.WaitGroup
	for i := range 12 {
		clients.Go(func() { h.live(t, stores[i%2], i, stop) })
	}
	most, least := 60, 25
	if os.Getenv("E2E_CAMPAIGN") == "full" {
		most, least = 600, 250
	}
	deadline := time.After(8 * time.Minute)
	for faults := 0; faults < most || h.ended() < least || hits() < least; faults++ {
		if !h.progress(deadline) {
			t.Errorf("only %d tasks ended and %d faults hit %d times in time", h.ended(), faults, hits())
			break
		}
		fault()
	}
	close(stop)
	clients.Wait()
	calm()
	h.check(t, stores)
}

func (h *history) ended() (n int) {
	h.note(func() { n = len(h.completed) })
	return n
}

func (h *history) check(t *testing.T, stores []*postgres.Store) {
	t.Helper()
	for id := range h.created {
		if _, err := stores[0].Task(t.Context(), id); err != nil {
			t.Errorf("an acknowledged task is lost: %v", err)
		}
	}
	for id, output := range h.completed {
		results, err := stores[1].Results(t.Context(), id)
		if err != nil || len(results) != 1 || results[0].Output == nil || *results[0].Output != output {
			t.Errorf("an acknowledged result is %+v, %v", results, err)
		}
	}
	st, err := stores[0].Stats(t.Context())
	if err != nil || st.Tasks.Total != int64(len(h.created)) {
		t.Errorf("%d tasks are counted, %d were acknowledged: %v", st.Tasks.Total, len(h.created), err)
	}
	if err := storetest.CheckInvariants(t.Context(), stores[0]); err != nil {
		t.Error(err)
	}
}
