package httpapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/client"
	"github.com/bloom-runtime/bloom/internal/auth"
	"github.com/bloom-runtime/bloom/internal/blob/local"
	"github.com/bloom-runtime/bloom/internal/dispatch"
	"github.com/bloom-runtime/bloom/internal/httpapi"
	"github.com/bloom-runtime/bloom/internal/pgtest"
	"github.com/bloom-runtime/bloom/internal/store/contract"
	"github.com/bloom-runtime/bloom/internal/store/postgres"
	"github.com/bloom-runtime/bloom/internal/store/sqlite"
	"github.com/bloom-runtime/bloom/internal/store/storetest"
	"github.com/bloom-runtime/bloom/internal/timing"
)

// TestAListWithoutPagesShowsAllThatIsUnfinished: a client that does not know paging must see its
// queued and running tasks, however many newer ones have ended.
func TestAListWithoutPagesShowsAllThatIsUnfinished(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, store contract.Store, api *client.Client) {
		unfinished, ended := fillLists(t, store)
		var tasks []bloom.Task
		for range 2 { // the second time filtered by the context of all of them
			q := bloom.TaskQuery{}
			if tasks != nil {
				q.ContextID = "c"
			}
			var err error
			tasks, _, err = api.Tasks(t.Context(), q)
			must(t, err)
			wantUnfinished(t, tasks, unfinished, ended)
		}
		for status, n := range map[bloom.TaskStatus]int{bloom.TaskQueued: 150, bloom.TaskCompleted: 100, bloom.TaskRunning: 0, bloom.TaskLeased: 1} {
			found, _, err := api.Tasks(t.Context(), bloom.TaskQuery{Status: status})
			must(t, err)
			if len(found) != n {
				t.Errorf("%d tasks are %s, want %d", len(found), status, n)
			}
		}
		leases, _, err := api.Leases(t.Context(), bloom.LeaseQuery{})
		must(t, err)
		if len(leases) < 101 || leases[len(leases)-1].Status != bloom.LeaseActive || leases[0].Status != bloom.LeaseReleased {
			t.Errorf("%d leases, the oldest is %s", len(leases), leases[len(leases)-1].Status)
		}
		all := 0
		for _, err := range api.AllTasks(t.Context(), bloom.TaskQuery{}) {
			must(t, err)
			all++
		}
		if all != len(unfinished)+ended {
			t.Errorf("walked %d tasks, want %d", all, len(unfinished)+ended)
		}
	})
}

// TestAListWithoutPagesHasALimitInBytes: tasks whose labels and globs are as long as they may be.
func TestAListWithoutPagesHasALimitInBytes(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, store contract.Store, api *client.Client) {
		const tasks = 520 // of 34 KB
		for range tasks {
			n := storetest.Plain("c")
			for i := range 32 {
				n.Spec.Labels = append(n.Spec.Labels, strings.Repeat("\U0001f600", 126)+fmt.Sprintf("%02d", i))
			}
			for range 16 {
				n.Spec.Policy.Artifacts = append(n.Spec.Policy.Artifacts, strings.Repeat("\U0001f600", 256))
			}
			_, _, err := store.CreateTask(t.Context(), n)
			must(t, err)
		}
		for _, status := range []bloom.TaskStatus{"", bloom.TaskQueued} {
			first, next, err := api.Tasks(t.Context(), bloom.TaskQuery{Status: status})
			must(t, err)
			raw, err := json.Marshal(first)
			must(t, err)
			if len(raw) > 17<<20 || len(raw) < 10<<20 {
				t.Errorf("%d tasks in %d bytes", len(first), len(raw))
			}
			all := map[string]bool{}
			for _, task := range first {
				all[task.ID] = true
			}
			rest := bloom.TaskQuery{Status: status, Page: bloom.Page{Limit: bloom.MaxPageSize, Cursor: next}}
			for task, err := range api.AllTasks(t.Context(), rest) {
				must(t, err)
				if all[task.ID] {
					t.Fatal("a task is listed twice")
				}
				all[task.ID] = true
			}
			if len(all) != tasks {
				t.Errorf("%d tasks on all pages, want %d", len(all), tasks)
			}
		}
	})
}

// TestAClaimHasALimitInBytes: long tasks that do not fit come with the next claims, also those whose
// first delivery was lost.
func TestAClaimHasALimitInBytes(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, store contract.Store, api *client.Client) {
		_, _, err := store.RegisterWorker(t.Context(), bloom.WorkerSpec{Name: "w", Capabilities: bloom.Capabilities{ClaudeCLI: true, MaxConcurrency: 8}}, "w")
		must(t, err)
		const tasks = 5
		for range tasks {
			n := storetest.Plain("c")
			n.Spec.Prompt = strings.Repeat("p", 3<<20)
			_, _, err := store.CreateTask(t.Context(), n)
			must(t, err)
		}
		claim := func(held ...string) (ids []string) {
			t.Helper()
			got, err := api.Claim(t.Context(), "w", client.Claim{InstanceID: "i", Max: 8, Held: held})
			must(t, err)
			if len(got.Lost) > 0 || len(got.Renewed) != len(held) {
				t.Errorf("of %d leases %d were renewed and %d lost", len(held), len(got.Renewed), len(got.Lost))
			}
			for _, l := range got.Leases {
				if len(l.Task.Prompt) != 3<<20 {
					t.Errorf("a prompt of %d bytes", len(l.Task.Prompt))
				}
				ids = append(ids, l.Lease.ID)
			}
			if len(ids) > 2 {
				t.Errorf("%d tasks of 3 MiB in one answer", len(ids))
			}
			return ids
		}
		for range 2 { // the second time all are leased already
			var held []string
			for more := claim(); len(more) > 0; more = claim(held...) {
				held = append(held, more...)
			}
			if len(held) != tasks {
				t.Errorf("%d tasks in all, want %d", len(held), tasks)
			}
		}
	})
}

// onBoth runs a test with a server on each database.
func onBoth(t *testing.T, test func(t *testing.T, store contract.Store, api *client.Client)) {
	t.Helper()
	for name, open := range map[string]func(*testing.T) contract.Store{
		"sqlite": func(t *testing.T) contract.Store {
			s, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "bloom.db")})
			must(t, err)
			return s
		},
		"postgresql": func(t *testing.T) contract.Store {
			s, err := postgres.Open(t.Context(), postgres.Config{URL: pgtest.Start(t)})
			must(t, err)
			return s
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := open(t)
			t.Cleanup(func() { _ = store.Close() })
			test(t, store, serve(t, store))
		})
	}
}

func serve(t *testing.T, store contract.Store) *client.Client {
	t.Helper()
	dir, quiet := t.TempDir(), slog.New(slog.DiscardHandler)
	blobs, err := local.Open(dir, "")
	must(t, err)
	t.Cleanup(func() { blobs.Close() })
	sealer, err := auth.OpenSealer(filepath.Join(dir, auth.SealKeyFile))
	must(t, err)
	service, err := dispatch.New(t.Context(), dispatch.Config{Store: store, Blobs: blobs, Seal: sealer, Logger: quiet, Poll: time.Hour})
	must(t, err)
	t.Cleanup(service.Close)
	keys, err := auth.New(auth.Config{AdminKey: adminKey, LoopbackOnly: true})
	must(t, err)
	must(t, keys.Open(t.Context(), store, sealer, timing.System{}))
	t.Cleanup(keys.Close)
	server := httptest.NewServer(httpapi.New(httpapi.Config{Service: service, Store: store, Auth: keys, Logger: quiet, Version: "test", Metrics: http.NotFoundHandler()}))
	t.Cleanup(server.Close)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	api, err := client.New(server.URL, client.Options{APIKey: adminKey, HTTPClient: &http.Client{Transport: transport}})
	must(t, err)
	return api
}

// fillLists creates one leased task and 150 queued ones, then 130 newer ones that have ended.
func fillLists(t *testing.T, s contract.Store) (unfinished []string, ended int) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	_, _, err := s.RegisterWorker(ctx, bloom.WorkerSpec{Name: "w", Capabilities: bloom.Capabilities{ClaudeCLI: true, MaxConcurrency: 32}}, "w")
	must(t, err)
	create := func() bloom.Task {
		task, _, err := s.CreateTask(ctx, storetest.Plain("c"))
		must(t, err)
		return task
	}
	held := create()
	_, _, err = s.LeaseTask(ctx, contract.LeaseRequest{TaskID: held.ID, WorkerID: "w"})
	must(t, err)
	unfinished = []string{held.ID}
	for range 150 {
		unfinished = append(unfinished, create().ID)
	}
	for ended = range 130 {
		task := create()
		l, _, err := s.LeaseTask(ctx, contract.LeaseRequest{TaskID: task.ID, WorkerID: "w"})
		must(t, err)
		_, err = s.Complete(ctx, storetest.Success(task.ID, l.ID))
		must(t, err)
	}
	return unfinished, ended + 1
}

func wantUnfinished(t *testing.T, tasks []bloom.Task, unfinished []string, ended int) {
	t.Helper()
	others := 0
	var found []string
	for i, task := range tasks {
		if i > 0 && task.CreatedAt > tasks[i-1].CreatedAt {
			t.Error("the list is not newest first")
		}
		if task.Status.Terminal() {
			others++
		} else {
			found = append(found, task.ID)
		}
	}
	slices.Sort(found)
	slices.Sort(unfinished)
	if !slices.Equal(found, unfinished) || others < 100 || others > ended {
		t.Errorf("%d unfinished tasks and %d others, want %d and at least 100", len(found), others, len(unfinished))
	}
}
