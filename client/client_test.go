package client_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/client"
	"github.com/bloom-runtime/bloom/internal/audit"
	"github.com/bloom-runtime/bloom/internal/runtimetest"
	"github.com/bloom-runtime/bloom/internal/storable"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 3 * time.Minute

func bounded(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// quick waits only briefly between tries.
var quick = client.Retry{Base: time.Millisecond, Max: 20 * time.Millisecond}

// TestTheWholeContract uses every call with one task.
func TestTheWholeContract(t *testing.T) {
	t.Parallel()
	rt, ctx := runtimetest.Start(t), bounded(t)
	c := rt.Client()
	spec := bloom.WorkerSpec{Name: "node", InstanceID: "one", Capabilities: bloom.Capabilities{ClaudeCLI: true, MaxConcurrency: 3}}
	if w, err := c.RegisterWorker(ctx, spec); err != nil || !w.Created {
		t.Fatalf("created %v, %v", w.Created, err)
	}
	if w, err := c.RegisterWorker(ctx, spec); err != nil || w.Created {
		t.Fatalf("created again %v, %v", w.Created, err)
	}
	task := must[bloom.Task](t)(c.Submit(ctx, bloom.TaskSpec{ContextID: "c", AgentSlug: "a", Prompt: "<p> & more"}))
	if task.Prompt != "<p> & more" || task.Policy.TimeoutSec != bloom.DefaultTimeoutSec || task.MaxAttempts != bloom.DefaultMaxAttempts {
		t.Fatalf("%+v", task)
	}
	claim := must[bloom.ClaimResult](t)(c.Claim(ctx, "node", client.Claim{InstanceID: "one", Max: 1, Wait: time.Second}))
	if len(claim.Leases) != 1 || claim.Leases[0].Task.ID != task.ID {
		t.Fatalf("%+v", claim)
	}
	lease := claim.Leases[0].Lease
	if heartbeat := must[bloom.HeartbeatResult](t)(c.Heartbeat(ctx, task.ID, lease.ID, nil)); heartbeat.Lease.ID != lease.ID {
		t.Fatalf("%+v", heartbeat)
	}
	if err := c.AppendEvents(ctx, task.ID, lease.ID, []bloom.WorkerEvent{{Seq: 1, Type: "text", At: 1, Data: storable.MustJSON("a\nb")}}); err != nil {
		t.Fatal(err)
	}
	output := strings.Repeat("long ", contract.InlineContentLimit) // is stored in the blob store
	done := bloom.Completion{LeaseID: lease.ID, Status: bloom.OutcomeSuccess, Output: &output}
	first := must[bloom.Completed](t)(c.Complete(ctx, task.ID, done))
	if again := must[bloom.Completed](t)(c.Complete(ctx, task.ID, done)); again.Result.ID != first.Result.ID {
		t.Fatal("the same completion again made another result")
	}
	other := "else"
	done.Output = &other
	if _, err := c.Complete(ctx, task.ID, done); !errors.Is(err, bloom.ErrOtherOutcome) {
		t.Fatalf("another outcome: %v", err)
	}
	if _, err := c.Heartbeat(ctx, task.ID, lease.ID, nil); !errors.Is(err, bloom.ErrLeaseLost) || client.IsUnreachable(err) {
		t.Fatalf("a lease that is over: %v", err)
	}
	if _, got, err := c.TaskOutput(ctx, task.ID); err != nil || string(got) != output {
		t.Fatalf("output of %d bytes, %v", len(got), err)
	}
	if got := must[[]bloom.Artifact](t)(page(c.Artifacts(ctx, bloom.ArtifactQuery{TaskID: task.ID}))); len(got) != 1 || got[0].ID != first.Artifact.ID {
		t.Fatalf("%+v", got)
	}

	// Leased by name, released, cancelled, requeued.
	task = rt.Submit("c", "again")
	granted := must[client.Granted](t)(c.Lease(ctx, task.ID, client.LeaseOptions{WorkerID: "node", TTLSeconds: 60}))
	if granted.Worker.ID != "node" || granted.Lease.TTLSeconds != 60 {
		t.Fatalf("%+v", granted)
	}
	if got := must[bloom.Task](t)(c.Release(ctx, task.ID, bloom.ReleaseSpec{LeaseID: granted.Lease.ID, Reason: "no"})); got.Status != bloom.TaskQueued || got.Attempts != 0 {
		t.Fatalf("%+v", got.TaskState)
	}
	if got := must[bloom.Task](t)(c.Cancel(ctx, task.ID)); got.Status != bloom.TaskCancelled {
		t.Fatalf("%+v", got.TaskState)
	}
	if _, err := c.Cancel(ctx, task.ID); bloom.KindOf(err) != bloom.KindConflict {
		t.Fatalf("cancelled twice: %v", err)
	}
	if got := must[bloom.Task](t)(c.Requeue(ctx, task.ID)); got.Status != bloom.TaskQueued {
		t.Fatalf("%+v", got.TaskState)
	}

	if got := must[bloom.Stats](t)(c.Stats(ctx)); got.Tasks.Total != 2 || got.Workers.Online != 1 {
		t.Fatalf("%+v", got)
	}
	day := must[bloom.Series](t)(c.Series(ctx, time.Time{}, time.Time{}, 24*time.Hour))
	if n := len(day.Points); day.Points[n-1].Created+day.Points[n-2].Created != 2 || day.Step != 86_400_000 {
		t.Fatalf("%+v", day)
	}
	filter := bloom.TaskFilter{Name: "a/b ?", Text: "<p>"}
	if got := must[bloom.TaskFilter](t)(c.SaveFilter(ctx, filter)); !reflect.DeepEqual(got, filter) {
		t.Fatalf("%+v", got)
	}
	if got := must[[]bloom.TaskFilter](t)(c.Filters(ctx)); len(got) != 1 || !reflect.DeepEqual(got[0], filter) {
		t.Fatalf("%+v", got)
	}
	if err := c.RemoveFilter(ctx, filter.Name); err != nil {
		t.Fatal(err)
	}
	if got := must[client.Health](t)(c.Health(ctx)); got.Status != "ok" || got.Storage != "sqlite" {
		t.Fatalf("%+v", got)
	}
	must[client.Config](t)(c.Config(ctx))
	must[client.Config](t)(c.SaveConfig(ctx, "http://127.0.0.1:1", "some-admin-key"))
	if got := must[client.ConnectionTest](t)(c.TestConnection(ctx)); got.Connected {
		t.Fatalf("%+v", got)
	}
	for _, all := range []func(context.Context, []string) ([]bloom.TaskOutcome, error){c.CancelAll, c.RequeueAll} {
		if got := must[[]bloom.TaskOutcome](t)(all(ctx, []string{task.ID, "nothing"})); len(got) != 2 || !got[0].OK || got[1].Code != bloom.CodeNotFound {
			t.Fatalf("in bulk: %+v", got)
		}
	}
	for _, all := range []func(context.Context, bloom.TasksMatching) (bloom.TasksMatched, error){c.CancelMatching, c.RequeueMatching} {
		if got := must[bloom.TasksMatched](t)(all(ctx, bloom.TasksMatching{AgentSlug: "nobody"})); got != (bloom.TasksMatched{}) {
			t.Fatalf("all that match: %+v", got)
		}
	}
	if got := must[[]bloom.Task](t)(c.Runs(ctx)); len(got) != 2 {
		t.Fatalf("%d runs", len(got))
	}
	if got := must[[]bloom.Lease](t)(page(c.Leases(ctx, bloom.LeaseQuery{}))); len(got) != 2 {
		t.Fatalf("%d leases", len(got))
	}
	for q, want := range map[bloom.LeaseQuery]int{{TaskID: task.ID}: 1, {WorkerID: "node"}: 2, {WorkerID: "another"}: 0} {
		if got := must[[]bloom.Lease](t)(page(c.Leases(ctx, q))); len(got) != want {
			t.Fatalf("%d leases for %+v", len(got), q)
		}
	}
	if got := must[[]bloom.Audit](t)(page(c.Audit(ctx, bloom.AuditQuery{Action: audit.ActionTaskCompleted}))); len(got) != 1 {
		t.Fatalf("%d completions audited", len(got))
	}
	if got := must[bloom.Worker](t)(c.DrainWorker(ctx, "node", true)); !got.Draining {
		t.Fatal("not draining")
	}
	if got := must[client.WorkerDetail](t)(c.Worker(ctx, "node")); got.ID != "node" || got.Leases == nil {
		t.Fatalf("%+v", got)
	}
	if err := c.RemoveWorker(ctx, "node"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Worker(ctx, "node"); !errors.Is(err, bloom.ErrWorkerNotFound) {
		t.Fatalf("a removed worker: %v", err)
	}
	if got := must[[]bloom.Worker](t)(c.Workers(ctx)); len(got) != 0 {
		t.Fatalf("%+v", got)
	}
}

func page[T any](items []T, _ bloom.Cursor, err error) ([]T, error) { return items, err }

func TestAllPagesAreWalkedInOrder(t *testing.T) {
	t.Parallel()
	rt, ctx := runtimetest.Start(t), bounded(t)
	var want, got []string
	for i := range 7 {
		want = append([]string{rt.Submit("c", fmt.Sprint(i)).ID}, want...)
	}
	for task, err := range rt.Client().AllTasks(ctx, bloom.TaskQuery{ContextID: "c", Page: bloom.Page{Limit: 3}}) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, task.ID)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatal(diff)
	}
}

func TestContentThatDiffersFromItsRowIsRefused(t *testing.T) {
	t.Parallel()
	content := []byte("twelve bytes")
	for name, row := range map[string]string{
		"another digest": `{"id":"a","size":12,"sha256":"00"}`,
		"shorter":        `{"id":"a","size":13,"sha256":"00"}`,
		"longer":         `{"id":"a","size":11,"sha256":"00"}`,
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/content") {
				_, _ = io.Copy(w, bytes.NewReader(content))
				return
			}
			_, _ = io.WriteString(w, row)
		}))
		c, _ := client.New(server.URL, client.Options{})
		if _, err := c.ArtifactBytes(bounded(t), "a"); !errors.Is(err, client.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
		c.Close()
		server.Close()
	}
}
