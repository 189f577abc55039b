package e2e_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/client"
)

// fleet is workers that complete tasks, and a client that creates them at a steady rate. It measures
// how long each task takes from the moment at which it was due.
type fleet struct {
	t   *testing.T
	api *client.Client

	mu   sync.Mutex
	took []time.Duration
}

const (
	fleetWorkers = 4
	fleetEvery   = 25 * time.Millisecond // a task is due
)

// run works until ctx ends; the last calls are completed.
func (f *fleet) run(ctx context.Context) (wait func()) {
	f.t.Helper()
	calls := context.WithoutCancel(ctx)
	var all sync.WaitGroup
	for i := range fleetWorkers {
		name := "fleet-" + strconv.Itoa(i)
		if _, err := f.api.RegisterWorker(ctx, bloom.WorkerSpec{Name: name, InstanceID: name, Capabilities: bloom.Capabilities{ClaudeCLI: true, MaxConcurrency: 8}}); err != nil {
			f.t.Fatal(err)
		}
		all.Go(func() {
			for ctx.Err() == nil && f.work(calls, name) {
			}
		})
	}
	all.Go(func() {
		for due := time.Now(); ctx.Err() == nil; due = due.Add(fleetEvery) {
			select {
			case <-time.After(time.Until(due)):
			case <-ctx.Done():
				return
			}
			spec := bloom.TaskSpec{ContextID: "fleet", AgentSlug: "fleet", Prompt: strconv.FormatInt(due.UnixNano(), 10)}
			if _, err := f.api.Submit(calls, spec); err != nil {
				f.t.Errorf("a task of the fleet: %v", err)
				return
			}
		}
	})
	return all.Wait
}

// work completes what a worker claims. It returns false if the server fails.
func (f *fleet) work(ctx context.Context, name string) bool {
	got, err := f.api.Claim(ctx, name, client.Claim{InstanceID: name, Max: 8, Wait: time.Second})
	if err != nil {
		f.t.Errorf("a claim of the fleet: %v", err)
		return false
	}
	for _, l := range got.Leases {
		output := "done"
		if _, err := f.api.Complete(ctx, l.Task.ID, bloom.Completion{LeaseID: l.Lease.ID, Status: bloom.OutcomeSuccess, Output: &output}); err != nil {
			f.t.Errorf("a completion of the fleet: %v", err)
			return false
		}
		if due, err := strconv.ParseInt(l.Task.Prompt, 10, 64); err == nil {
			f.mu.Lock()
			f.took = append(f.took, time.Since(time.Unix(0, due)))
			f.mu.Unlock()
		}
	}
	return true
}

// since returns what was measured since the last call, sorted.
func (f *fleet) since() []time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	took := f.took
	f.took = nil
	slices.Sort(took)
	return took
}

// confine limits the memory of a process by a cgroup of its own. It returns how the memory is limited,
// in words, because not every machine lets a test make a cgroup.
func confine(t *testing.T, pid int, bytes int64) string {
	t.Helper()
	own := ""
	if all, err := os.ReadFile("/proc/self/cgroup"); err == nil {
		for line := range strings.Lines(string(all)) {
			if _, path, is := strings.Cut(line, ":memory:"); is {
				own = strings.TrimSpace(path)
			}
		}
	}
	for _, c := range []struct{ parent, limit string }{
		{"/sys/fs/cgroup", "memory.max"},
		{filepath.Join("/sys/fs/cgroup/memory", own), "memory.limit_in_bytes"},
	} {
		dir := filepath.Join(c.parent, fmt.Sprintf("bloom-e2e-%d", pid))
		if os.Mkdir(dir, 0o755) != nil {
			continue
		}
		t.Cleanup(func() { _ = os.Remove(dir) }) // it is empty once the process has ended
		if _, err := os.Stat(filepath.Join(dir, c.limit)); err != nil {
			continue // without the memory controller; a file here would be an ordinary one
		}
		if os.WriteFile(filepath.Join(dir, c.limit), []byte(strconv.FormatInt(bytes, 10)), 0o644) == nil &&
			os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0o644) == nil {
			return "a cgroup limits the server to " + strconv.FormatInt(bytes>>20, 10) + " MiB"
		}
	}
	return "no cgroup can be made here: GOMEMLIMIT, and the peak is checked"
}
