package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/schema"
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

func register(t testing.TB, s bloom.Store, name string, slots int, labels ...string) {
	t.Helper()
	if _, _, err := s.RegisterWorker(t.Context(), bloom.WorkerSpec{
		Name: name, InstanceID: name + "-1", Capabilities: bloom.Capabilities{ClaudeCLI: true, MaxConcurrency: slots, Labels: labels},
	}, "test"); err != nil {
		t.Fatal(err)
	}
}

// history is what callers were told.
type history struct {
	mu        sync.Mutex
	completed map[string]string // task → output that was acknowledged
	created   map[string]bool
	calls     [2]atomic.Int64 // that came back, by store
}

// live runs whole lives of tasks until stop closes. No refusal is expected: each
// client is alone with its task.
func (h *history) live(t *testing.T, s bloom.Store, client int, stop <-chan struct{}) {
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
		l, _, err := s.LeaseTask(ctx, bloom.LeaseRequest{TaskID: n.ID, Actor: "test"})
		if err != nil {
			t.Errorf("lease: %v", err)
			return
		}
		if _, err := s.Heartbeat(ctx, n.ID, l.ID); err != nil {
			t.Errorf("heartbeat: %v", err)
			return
		}
		r := storetest.Success(n.ID, l.ID)
		if i%2 == 0 {
			r.Completion.LeaseID = "" // a client that cannot be told from another by its lease
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

// progress waits until a call has come back from each store: trouble without end
// would only show how long the store's patience is.
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

// TestCutConnectionsNeitherLoseNorInvent kills the connections of two replicas
// over and over in the midst of their work.
func TestCutConnectionsNeitherLoseNorInvent(t *testing.T) {
	t.Parallel()
	url := migrated.Start(t)
	stores := []*postgres.Store{open(t, url, nil), open(t, url, nil)}
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

// TestSwallowedAnswersNeitherLoseNorInvent loses the answers to commits that have
// happened, and to everything else.
func TestSwallowedAnswersNeitherLoseNorInvent(t *testing.T) {
	t.Parallel()
	cut, url := startCutter(t, migrated.Start(t))
	stores := []*postgres.Store{open(t, url, nil), open(t, url, nil)}
	endure(t, stores, func() { cut.rate.Store(40) }, func() int { return int(cut.cuts.Load()) }, func() { cut.rate.Store(0) })
}

// endure lets clients live on two replicas while trouble is made over and over, until it has
// hit often enough, and compares what they were told with what is there once it is calm. It
// is ten times as long with E2E_CAMPAIGN=full.
func endure(t *testing.T, stores []*postgres.Store, trouble func(), hits func() int, calm func()) {
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
	for troubles := 0; troubles < most || h.ended() < least || hits() < least; troubles++ {
		if !h.progress(deadline) {
			t.Errorf("only %d tasks ended and %d troubles hit %d times in time", h.ended(), troubles, hits())
			break
		}
		trouble()
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

func TestATaskOfOneReplicaWakesTheOther(t *testing.T) {
	t.Parallel()
	url := migrated.Start(t)
	a, b := open(t, url, nil), open(t, url, nil)
	heard := make(chan bloom.Change, 100)
	defer b.Subscribe(func(changes []bloom.Change) {
		for _, c := range changes {
			heard <- c
		}
	})()
	// They know of each other from the start: not even the first is left untold.
	n := storetest.Plain("context")
	n.Spec.Labels = []string{"gpu"}
	if _, _, err := a.CreateTask(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	select {
	case c := <-heard:
		if c.Kind != bloom.ChangeTask || c.TaskID != n.ID || c.TaskStatus != bloom.TaskQueued || len(c.Labels) != 1 || c.Labels[0] != "gpu" || c.RunAt == 0 {
			t.Errorf("heard %+v", c)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the other replica hears nothing")
	}
}

func TestALockIsHeldByOneAndHandedOver(t *testing.T) {
	t.Parallel()
	url := migrated.Start(t)
	a, b := open(t, url, nil), open(t, url, nil)
	first, ok, err := a.TryLock(t.Context(), "reaper")
	if err != nil || !ok {
		t.Fatalf("first: %v, %v", ok, err)
	}
	if _, ok, err := b.TryLock(t.Context(), "reaper"); err != nil || ok {
		t.Fatalf("a second holder: %v, %v", ok, err)
	}
	other, ok, err := b.TryLock(t.Context(), "retention")
	if err != nil || !ok {
		t.Fatalf("another name: %v, %v", ok, err)
	}
	defer other.Release()
	if err := first.Held(t.Context()); err != nil {
		t.Error(err)
	}
	// The holder's connection dies: it must notice, and another may have it.
	if _, err := connect(t, url).Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'bloom-reaper'`); err != nil {
		t.Fatal(err)
	}
	if err := first.Held(t.Context()); !errors.Is(err, postgres.ErrLockLost) {
		t.Errorf("the dead holder says %v", err)
	}
	first.Release()
	for {
		second, ok, err := b.TryLock(t.Context(), "reaper")
		if err != nil {
			t.Fatal(err)
		}
		if ok {
			second.Release()
			return
		}
	}
}

func TestANewerSchemaIsRefused(t *testing.T) {
	t.Parallel()
	url := migrated.Start(t)
	s := open(t, url, nil)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := connect(t, url).Exec(t.Context(), `INSERT INTO goose_db_version (version_id, is_applied) VALUES (9999, true)`); err != nil {
		t.Fatal(err)
	}
	if _, err := postgres.Open(t.Context(), postgres.Config{URL: url}); !errors.Is(err, schema.ErrNewerSchema) {
		t.Errorf("opened with %v", err)
	}
}

func TestReplicasThatStartTogetherMigrateOnce(t *testing.T) {
	t.Parallel()
	url := migrated.Start(t)
	var opened atomic.Int64
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			s, err := postgres.Open(t.Context(), postgres.Config{URL: url})
			if err != nil {
				t.Error(err)
				return
			}
			opened.Add(1)
			_ = s.Close()
		})
	}
	all.Wait()
	if opened.Load() != 4 {
		t.Errorf("%d of 4 opened", opened.Load())
	}
}

func TestAWrongAddressShowsNoPassword(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"postgres://u:hunter2secret@127.0.0.1:1/db", "postgres://u:hunter2secret@[bad"} {
		_, err := postgres.Open(t.Context(), postgres.Config{URL: url})
		if err == nil || strings.Contains(err.Error(), "hunter2secret") {
			t.Errorf("says %v", err)
		}
	}
}

// TestTheServersClockDecides: replicas have no clock of their own.
func TestTheServersClockDecides(t *testing.T) {
	t.Parallel()
	url := migrated.Start(t)
	s := open(t, url, nil)
	task, _, err := s.CreateTask(t.Context(), storetest.Plain("context"))
	if err != nil {
		t.Fatal(err)
	}
	var now int64
	if err := connect(t, url).QueryRow(t.Context(), `SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint`).Scan(&now); err != nil {
		t.Fatal(err)
	}
	if d := now - task.CreatedAt; d < 0 || d > 60_000 {
		t.Errorf("created %d ms before the server's time", d)
	}
}
