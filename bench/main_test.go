package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/client"
	"github.com/bloom-runtime/bloom/internal/runtimetest"
	"github.com/bloom-runtime/bloom/internal/store/sqlite"
)

// measure runs a command against a server.
func measure(t *testing.T, rt *runtimetest.Runtime, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	err := run(t.Context(), append(args, "--url", rt.URL, "--api-key", runtimetest.AdminKey), &out)
	return out.String(), err
}

func TestMeasurementsTidyUp(t *testing.T) {
	t.Parallel()
	rt := runtimetest.Start(t)
	for want, args := range map[string][]string{
		"create to start: p50": {"polls", "--polls=5", "--registered=3", "--settle=0s", "-d", "100ms", "--samples=4"},
		"3 streams: ":          {"costs", "-c", "2", "-d", "50ms", "--streams=3", "--pid", fmt.Sprint(os.Getpid())},
		"4 tasks in ":          {"fill", "-n", "4", "--queued=0"},
	} {
		if out, err := measure(t, rt, args...); err != nil || !strings.Contains(out, want) {
			t.Errorf("%v: %v, %q is not in\n%s", args, err, want, out)
		}
	}
	api, err := client.New(rt.URL, client.Options{APIKey: runtimetest.AdminKey})
	if err != nil {
		t.Fatal(err)
	}
	defer api.Close()
	workers, err := api.Workers(t.Context())
	if err != nil || len(workers) != 0 {
		t.Errorf("workers are left: %v, %v", workers, err)
	}
	stats, err := api.Stats(t.Context())
	if err != nil || stats.Tasks.ByStatus[bloom.TaskQueued] != 0 || stats.Leases.Active != 0 {
		t.Errorf("tasks are left: %+v, %v", stats, err)
	}
}

// Any worker may claim a task without labels, including the measurement's, which does not run it.
func TestPollsLeaveOthersTasksAlone(t *testing.T) {
	t.Parallel()
	rt := runtimetest.Start(t)
	api, err := client.New(rt.URL, client.Options{APIKey: runtimetest.AdminKey})
	if err != nil {
		t.Fatal(err)
	}
	defer api.Close()
	task, err := api.Submit(t.Context(), bloom.TaskSpec{ContextID: "theirs", AgentSlug: "a", Prompt: "Work."})
	if err != nil {
		t.Fatal(err)
	}
	if out, err := measure(t, rt, "polls", "--polls=2", "--settle=0s", "-d", "1m", "--samples=1"); err == nil || !strings.Contains(err.Error(), task.ID) {
		t.Errorf("%v, %s", err, out)
	}
	if task, err = api.Task(t.Context(), task.ID); err != nil || task.Status != bloom.TaskQueued || task.Attempts != 0 {
		t.Errorf("the task is %s after %d attempts, %v", task.Status, task.Attempts, err)
	}
}

func TestFillWritesLifecyclesToAFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir() + "/data"
	if err := run(t.Context(), []string{"fill", "-n", "100", "--data-dir", dir}, &bytes.Buffer{}); err != nil {
		t.Fatal(err)
	}
	store, err := sqlite.Open(t.Context(), sqlite.Config{Path: dir + "/bloom.db"})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	stats, err := store.Stats(t.Context())
	if err != nil || stats.Tasks.ByStatus[bloom.TaskQueued] != 5 || stats.Tasks.Total != 100 {
		t.Errorf("%+v, %v", stats.Tasks, err)
	}
}
