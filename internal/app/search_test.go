package app_test

import (
	"context"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/client"
	"github.com/bloom-runtime/bloom/internal/app"
)

// A server's own loop indexes prompts and outputs about a second after they were stored. The limit
// is for a busy machine.
func TestWhatWasPostedIsFoundSoonAfter(t *testing.T) {
	t.Parallel()
	cfg := serverConfig(t)
	cfg.RuntimeAPIKey = key
	s, err := app.OpenServer(t.Context(), cfg, build())
	must(t, err)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx, context.Background()) }()
	t.Cleanup(func() {
		stop()
		must(t, <-ended)
		must(t, s.Close())
	})
	api, err := client.New(s.URL(), client.Options{APIKey: key})
	must(t, err)
	t.Cleanup(api.Close)
	found := func(text, id string) {
		t.Helper()
		for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
			tasks, _, err := api.Tasks(t.Context(), bloom.TaskQuery{Text: text})
			must(t, err)
			if len(tasks) == 1 && tasks[0].ID == id {
				t.Logf("%q is found after %v", text, time.Since(began))
				return
			}
			if time.Since(began) > 2*time.Minute {
				t.Fatalf("%q finds %d tasks", text, len(tasks))
			}
		}
	}
	_, err = api.RegisterWorker(t.Context(), bloom.WorkerSpec{Name: "w", InstanceID: "i", Capabilities: bloom.Capabilities{ClaudeCLI: true, MaxConcurrency: 1}})
	must(t, err)
	task, err := api.Submit(t.Context(), bloom.TaskSpec{ContextID: "zoo", AgentSlug: "counter", Prompt: "count the walruses"})
	must(t, err)
	found("walruses", task.ID)
	got, err := api.Claim(t.Context(), "w", client.Claim{InstanceID: "i", Max: 1, Wait: 10 * time.Second})
	must(t, err)
	output := "there are seven pelicans"
	_, err = api.Complete(t.Context(), task.ID, bloom.Completion{LeaseID: got.Leases[0].Lease.ID, Status: bloom.OutcomeSuccess, Output: &output, Metrics: bloom.Metrics{DurationMS: 1}})
	must(t, err)
	found("pelicans", task.ID)
}
