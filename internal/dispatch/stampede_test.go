package dispatch_test

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/auth"
	"github.com/bloom-runtime/bloom/internal/blob/local"
	"github.com/bloom-runtime/bloom/internal/dispatch"
	"github.com/bloom-runtime/bloom/internal/store/contract"
	"github.com/bloom-runtime/bloom/internal/store/sqlite"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// counting is a real store that counts claims.
type counting struct {
	contract.Store
	claims atomic.Int64
}

func (c *counting) Claim(ctx context.Context, r contract.ClaimRequest) (bloom.ClaimResult, error) {
	c.claims.Add(1)
	return c.Store.Claim(ctx, r)
}

func open(t *testing.T, change ...func(*dispatch.Config)) (*dispatch.Service, *counting) {
	t.Helper()
	dir := t.TempDir()
	s, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(dir, "bloom.db"), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	store := &counting{Store: s}
	blobs, err := local.Open(filepath.Join(dir, "artifacts"), "")
	if err != nil {
		t.Fatal(err)
	}
	sealer, err := auth.OpenSealer(filepath.Join(dir, auth.SealKeyFile))
	if err != nil {
		t.Fatal(err)
	}
	cfg := dispatch.Config{Store: store, Blobs: blobs, Seal: sealer, Poll: time.Hour}
	for _, c := range change {
		c(&cfg)
	}
	service, err := dispatch.New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		service.Close()
		s.Close()
		blobs.Close()
	})
	return service, store
}

func TestOneTaskDoesNotWakeEverybody(t *testing.T) {
	t.Parallel()
	service, store := open(t)
	const n = 300
	got := make(chan bloom.ClaimResult, n)
	for i := range n {
		name := fmt.Sprintf("w%03d", i)
		spec := bloom.WorkerSpec{Name: name, Status: bloom.WorkerOnline, Capabilities: bloom.Capabilities{ClaudeCLI: true, MaxConcurrency: 1}}
		if _, _, err := service.RegisterWorker(t.Context(), spec, "test"); err != nil {
			t.Fatal(err)
		}
		go func() {
			res, err := service.Claim(context.Background(), contract.ClaimRequest{WorkerID: name, InstanceID: "i", Max: 1}, time.Minute)
			if err != nil {
				t.Error(err)
			}
			got <- res
		}()
	}
	for service.Waiting() < n {
		time.Sleep(time.Millisecond)
	}
	before := store.claims.Load()
	for i := range 5 {
		spec := bloom.TaskSpec{ContextID: fmt.Sprint("c", i), AgentSlug: "a", Prompt: "p"}
		if _, _, err := service.Submit(t.Context(), dispatch.Submission{Spec: spec, Actor: "test"}); err != nil {
			t.Fatal(err)
		}
		if res := <-got; len(res.Leases) != 1 {
			t.Fatalf("a poll came back with %+v", res)
		}
	}
	// One claim for each task; a second one where the notification of a lease came late.
	if looks := store.claims.Load() - before; looks > 10 {
		t.Fatalf("5 tasks made %d of %d waiting workers look", looks, n)
	}
	service.Close()
	for range n - 5 {
		<-got
	}
}

// A task reserved for one worker is offered to others after the grace period, and until then does
// not wake all of them in turn.
func TestATaskThatNobodyMayTakeWakesFew(t *testing.T) {
	t.Parallel()
	service, store := open(t)
	const n = 100
	got := make(chan bloom.ClaimResult, n)
	for i := range n {
		name := fmt.Sprintf("w%03d", i)
		spec := bloom.WorkerSpec{Name: name, Status: bloom.WorkerOnline, Capabilities: bloom.Capabilities{ClaudeCLI: true, MaxConcurrency: 1}}
		if _, _, err := service.RegisterWorker(t.Context(), spec, "test"); err != nil {
			t.Fatal(err)
		}
		go func() {
			res, _ := service.Claim(context.Background(), contract.ClaimRequest{WorkerID: name, InstanceID: "i", Max: 1}, time.Minute)
			got <- res
		}()
	}
	for service.Waiting() < n {
		time.Sleep(time.Millisecond)
	}
	spec := bloom.TaskSpec{ContextID: "c", AgentSlug: "a", Prompt: "p", Policy: bloom.Policy{Ordered: true}}
	if _, _, err := service.Submit(t.Context(), dispatch.Submission{Spec: spec, Actor: "test"}); err != nil {
		t.Fatal(err)
	}
	<-got // holds the first task
	before := store.claims.Load()
	second, _, err := service.Submit(t.Context(), dispatch.Submission{Spec: spec, Actor: "test"})
	if err != nil {
		t.Fatal(err)
	}
	if second.Status != bloom.TaskQueued {
		t.Fatalf("an ordered task is %s", second.Status)
	}
	service.Close()
	for range n - 1 {
		if res := <-got; len(res.Leases) != 0 {
			t.Fatal("an ordered task ran beside the one before it")
		}
	}
	if looks := store.claims.Load() - before; looks > 40 {
		t.Fatalf("a task that nobody may take made %d workers look", looks)
	}
}
