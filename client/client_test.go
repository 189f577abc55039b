package client_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/client"
	"github.com/bloom-runtime/bloom/internal/runtimetest"
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

// quick waits little between tries.
var quick = client.Retry{Base: time.Millisecond, Max: 20 * time.Millisecond}

// TestTheWholeContract walks a task through every call that there is.
func TestTheWholeContract(t *testing.T) {
	t.Parallel()
	rt, ctx := runtimetest.Start(t), bounded(t)
	c := rt.Client()
	spec := bloom.WorkerSpec{Name: "node", InstanceID: "one", Capabilities: bloom.Capabilities{ClaudeCLI: true, MaxConcurrency: 3}}
	if _, created, err := c.RegisterWorker(ctx, spec); err != nil || !created {
		t.Fatalf("created %v, %v", created, err)
	}
	if _, created, err := c.RegisterWorker(ctx, spec); err != nil || created {
		t.Fatalf("created again %v, %v", created, err)
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
	if beat := must[bloom.HeartbeatResult](t)(c.Heartbeat(ctx, task.ID, lease.ID)); beat.Lease.ID != lease.ID {
		t.Fatalf("%+v", beat)
	}
	if err := c.AppendEvents(ctx, task.ID, lease.ID, []bloom.WorkerEvent{{Seq: 1, Type: "text", At: 1, Data: bloom.MustJSON("a\nb")}}); err != nil {
		t.Fatal(err)
	}
	output := strings.Repeat("long ", bloom.InlineContentLimit) // lies in the blob store
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
	if _, err := c.Heartbeat(ctx, task.ID, lease.ID); !errors.Is(err, bloom.ErrLeaseLost) || client.IsUnreachable(err) {
		t.Fatalf("a lease that is over: %v", err)
	}
	if _, got, err := c.TaskOutput(ctx, task.ID); err != nil || string(got) != output {
		t.Fatalf("output of %d bytes, %v", len(got), err)
	}
	if got := must[[]bloom.Artifact](t)(page(c.Artifacts(ctx, bloom.ArtifactQuery{TaskID: task.ID}))); len(got) != 1 || got[0].ID != first.Artifact.ID {
		t.Fatalf("%+v", got)
	}

	// Given by hand, given back, cancelled, requeued.
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
	if got := must[bloom.TaskFilter](t)(c.SaveFilter(ctx, filter)); got != filter {
		t.Fatalf("%+v", got)
	}
	if got := must[[]bloom.TaskFilter](t)(c.Filters(ctx)); len(got) != 1 || got[0] != filter {
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
	if got := must[[]bloom.Audit](t)(page(c.Audit(ctx, bloom.AuditQuery{Action: bloom.ActionTaskCompleted}))); len(got) != 1 {
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

func TestErrorsKeepWhatTheServerSaid(t *testing.T) {
	t.Parallel()
	rt, ctx := runtimetest.Start(t), bounded(t)
	_, err := rt.Client().Submit(ctx, bloom.TaskSpec{ContextID: "c", AgentSlug: "a"})
	var api *client.APIError
	var inner *bloom.Error
	if !errors.As(err, &api) || !errors.As(err, &inner) || api.Status != 400 || api.RequestID == "" || inner.Kind != bloom.KindInvalid || len(inner.Details) == 0 {
		t.Fatalf("%#v", err)
	}
	if !strings.Contains(err.Error(), "prompt") {
		t.Fatalf("does not say what is wrong: %v", err)
	}
	wrong, _ := client.New(rt.URL, client.Options{APIKey: "not-the-key-of-anyone"})
	defer wrong.Close()
	if _, err := wrong.Stats(ctx); bloom.KindOf(err) != bloom.KindUnauthorized {
		t.Fatalf("a wrong key: %v", err)
	}
	if _, err := rt.Client().Task(ctx, "nothing"); !errors.Is(err, bloom.ErrTaskNotFound) {
		t.Fatalf("%v", err)
	}
}

func TestAServerThatIsAwayIsNotARefusal(t *testing.T) {
	t.Parallel()
	rt, ctx := runtimetest.Start(t), bounded(t)
	c := rt.Client().WithRetry(quick)
	rt.Down()
	_, err := c.Heartbeat(ctx, "x", "y")
	var lost *client.UnreachableError
	if !errors.As(err, &lost) || lost.Sent || errors.Is(err, bloom.ErrLeaseLost) {
		t.Fatalf("%#v", err)
	}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := c.Stats(cancelled); !errors.Is(err, context.Canceled) || client.IsUnreachable(err) {
		t.Fatalf("the caller's own end: %v", err)
	}
}

// TestSubmitRepeatedMakesOneTask drops the answers of the first two tries, after
// the server has acted on them.
func TestSubmitRepeatedMakesOneTask(t *testing.T) {
	t.Parallel()
	rt, ctx := runtimetest.Start(t), bounded(t)
	lossy := &losing{next: http.DefaultTransport.(*http.Transport).Clone(), lose: 2}
	c, err := client.New(rt.URL, client.Options{APIKey: runtimetest.AdminKey, HTTPClient: &http.Client{Transport: lossy}, Retry: quick})
	if err != nil {
		t.Fatal(err)
	}
	defer lossy.next.CloseIdleConnections()
	task := must[bloom.Task](t)(c.Submit(ctx, bloom.TaskSpec{ContextID: "c", AgentSlug: "a", Prompt: "p"}))
	all := must[[]bloom.Task](t)(c.Runs(ctx))
	if len(all) != 1 || all[0].ID != task.ID {
		t.Fatalf("%d tasks", len(all))
	}
	lossy.lose = 1
	if got := must[bloom.Task](t)(c.Cancel(ctx, task.ID)); got.Status != bloom.TaskCancelled {
		t.Fatalf("%+v", got.TaskState)
	}
	// What may not be repeated is not, once it may have arrived.
	lossy.lose = 1
	if _, err := c.Requeue(ctx, task.ID); !client.IsUnreachable(err) {
		t.Fatalf("requeue: %v", err)
	}
}

// losing loses the answers of the next requests.
type losing struct {
	next *http.Transport
	lose int
}

func (l *losing) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := l.next.RoundTrip(r)
	if err == nil && l.lose > 0 {
		l.lose--
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		return nil, io.ErrUnexpectedEOF
	}
	return resp, err
}

func TestTheStreamIsFollowedThroughOutagesToItsEnd(t *testing.T) {
	t.Parallel()
	rt, ctx := runtimetest.Start(t), bounded(t)
	c := rt.Client().WithRetry(quick)
	task := rt.Submit("c", "p")
	if _, _, err := c.RegisterWorker(ctx, bloom.WorkerSpec{Name: "node", Capabilities: bloom.Capabilities{ClaudeCLI: true}}); err != nil {
		t.Fatal(err)
	}
	lease := must[client.Granted](t)(c.Lease(ctx, task.ID, client.LeaseOptions{})).Lease

	events := make(chan bloom.Event)
	var reconnects atomic.Int32
	var wg sync.WaitGroup
	wg.Go(func() {
		defer close(events)
		for e, err := range c.FollowEvents(ctx, task.ID, client.FollowOptions{OnReconnect: func(error, time.Duration) { reconnects.Add(1) }}) {
			if err != nil {
				t.Errorf("follow: %v", err)
				return
			}
			events <- e
		}
	})
	add := func(n int64) {
		err := c.AppendEvents(ctx, task.ID, lease.ID, []bloom.WorkerEvent{{Seq: n, Type: "text", At: 1, Data: bloom.MustJSON(n)}})
		if err != nil {
			t.Fatal(err)
		}
	}
	var types []string
	var last int64
	next := func() {
		e, open := <-events
		if !open || e.Seq != last+1 {
			t.Fatalf("event %+v after %d, open %v", e, last, open)
		}
		last = e.Seq
		types = append(types, e.Type)
	}
	next()
	next()
	add(1)
	next()
	rt.Down()
	rt.Up()
	add(2)
	next()
	empty := ""
	must[bloom.Completed](t)(c.Complete(ctx, task.ID, bloom.Completion{LeaseID: lease.ID, Status: bloom.OutcomeSuccess, Output: &empty}))
	next()
	if _, open := <-events; open {
		t.Fatal("the stream goes on after its end")
	}
	wg.Wait()
	if diff := cmp.Diff([]string{"created", "leased", "text", "text", "completed"}, types); diff != "" {
		t.Fatal(diff)
	}
	if reconnects.Load() == 0 {
		t.Fatal("no reconnection was told of")
	}
	// A finished stream ends at once, from its beginning and from its end.
	for _, after := range []int64{0, last} {
		n := int64(0)
		for _, err := range c.FollowEvents(ctx, task.ID, client.FollowOptions{After: after}) {
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		if n != last-after {
			t.Fatalf("after %d: %d events", after, n)
		}
	}
}

func TestFollowingWhatIsNotThereEnds(t *testing.T) {
	t.Parallel()
	rt, ctx := runtimetest.Start(t), bounded(t)
	for _, err := range rt.Client().FollowEvents(ctx, "nothing", client.FollowOptions{}) {
		if !errors.Is(err, bloom.ErrTaskNotFound) {
			t.Fatalf("%v", err)
		}
	}
}

func TestChangesAreHeardAndLeftAtWill(t *testing.T) {
	t.Parallel()
	rt, ctx := runtimetest.Start(t), bounded(t)
	c := rt.Client()
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := 0; ; i++ { // what changed before the stream stood is not in it
			select {
			case <-stop:
				return
			case <-time.After(20 * time.Millisecond):
				_, _ = c.Submit(ctx, bloom.TaskSpec{ContextID: "c", AgentSlug: "a", Prompt: "p"})
			}
		}
	})
	for change, err := range c.Changes(ctx, client.FollowOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		if change.Kind == bloom.ChangeTask {
			break
		}
	}
	close(stop)
	wg.Wait()
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

// A server that takes the call and says nothing is given up after the call's time.
func TestAServerThatHangsIsGivenUp(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0") // the kernel takes connections
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	c, err := client.New("http://"+silent.Addr().String(), client.Options{Timeout: 50 * time.Millisecond, Retry: client.NoRetry})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Stats(bounded(t)); !client.IsUnreachable(err) || !strings.Contains(err.Error(), "timed out waiting for the response") {
		t.Errorf("%v", err)
	}
}

func TestTheKeyNeverFollowsARedirect(t *testing.T) {
	t.Parallel()
	thief := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { t.Errorf("asked for %s", r.URL) }))
	defer thief.Close()
	server := httptest.NewServer(http.RedirectHandler(thief.URL, http.StatusTemporaryRedirect))
	defer server.Close()
	c, _ := client.New(server.URL, client.Options{APIKey: "secret"})
	defer c.Close()
	if _, err := c.Stats(bounded(t)); err == nil || !strings.Contains(err.Error(), "redirects") {
		t.Fatalf("%v", err)
	}
}

func TestAPageThatIsNotARuntimeIsSaidSo(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") }))
	defer server.Close()
	c, _ := client.New(server.URL, client.Options{})
	defer c.Close()
	if _, err := c.Stats(bounded(t)); err == nil || !client.IsUnreachable(err) || !strings.Contains(err.Error(), "other than a BLOOM runtime") {
		t.Fatalf("%v", err)
	}
}

func TestOnlyAddressesOfServersAreTaken(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"", "localhost:5000", "ftp://host", "http://", "http://user:pass@host", "http://host?x=1"} {
		if _, err := client.New(url, client.Options{}); err == nil {
			t.Errorf("%q was taken", url)
		}
	}
	c, err := client.New("https://host/prefix/api/runtime/", client.Options{})
	if err != nil || c.BaseURL() != "https://host/prefix/api/runtime" {
		t.Fatalf("%v, %v", c.BaseURL(), err)
	}
}
