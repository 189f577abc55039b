package client_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/client"
	"github.com/bloom-runtime/bloom/internal/runtimetest"
)

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

func TestAnUnreachableServerIsNotARefusal(t *testing.T) {
	t.Parallel()
	rt, ctx := runtimetest.Start(t), bounded(t)
	c := rt.Client().WithRetry(quick)
	rt.Down()
	_, err := c.Heartbeat(ctx, "x", "y", nil)
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

// TestSubmitRepeatedMakesOneTask drops the responses to the first two tries, after the server has
// processed them.
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
	// A request that must not be repeated is not, once it may have arrived.
	lossy.lose = 1
	if _, err := c.Requeue(ctx, task.ID); !client.IsUnreachable(err) {
		t.Fatalf("requeue: %v", err)
	}
}

// losing loses the responses to the next requests.
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

// A call to a server that accepts it and does not respond times out.
func TestACallToAHangingServerTimesOut(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0") // the kernel accepts connections
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	c, err := client.New("http://"+silent.Addr().String(), client.Options{Timeout: 500 * time.Millisecond, Retry: client.NoRetry})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Stats(bounded(t)); !client.IsUnreachable(err) || !strings.Contains(err.Error(), "timed out waiting for the response") {
		t.Errorf("%v", err)
	}
}

// Also a proxy that begins to refuse a stream is given up.
func TestARefusalThatDoesNotEndIsGivenUp(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusBadGateway)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	defer server.Close()
	c, _ := client.New(server.URL, client.Options{Timeout: 500 * time.Millisecond, Retry: client.NoRetry})
	defer c.Close()
	for _, err := range c.FollowEvents(bounded(t), "task", client.FollowOptions{}) {
		if !client.IsUnreachable(err) {
			t.Errorf("%v", err)
		}
	}
}

// TestRemovedWithAnAnswerThatWasLost: the second try finds nothing, which is what was wanted.
func TestRemovedWithAnAnswerThatWasLost(t *testing.T) {
	t.Parallel()
	rt, ctx := runtimetest.Start(t), bounded(t)
	lossy := &losing{next: http.DefaultTransport.(*http.Transport).Clone()}
	c, err := client.New(rt.URL, client.Options{APIKey: runtimetest.AdminKey, HTTPClient: &http.Client{Transport: lossy}, Retry: quick})
	if err != nil {
		t.Fatal(err)
	}
	defer lossy.next.CloseIdleConnections()
	must[bloom.TaskFilter](t)(c.SaveFilter(ctx, bloom.TaskFilter{Name: "f", AgentSlug: "a"}))
	lossy.lose = 1
	if err := c.RemoveFilter(ctx, "f"); err != nil {
		t.Error(err)
	}
	if err := c.RemoveFilter(ctx, "f"); bloom.KindOf(err) != bloom.KindNotFound {
		t.Errorf("removed twice: %v", err)
	}
	var refused atomic.Bool
	rt.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
		if refused.Swap(true) {
			return false
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusTooManyRequests)
		_, _ = io.WriteString(w, `{"error":"Too many requests","code":"rate_limited","request_id":"r"}`)
		return true
	})
	if err := c.RemoveFilter(ctx, "f"); bloom.KindOf(err) != bloom.KindNotFound {
		t.Errorf("removed after a refusal, which removed nothing: %v", err)
	}
}

// TestAnEndedTaskIsAwaitedThroughAnOutage that begins when its stream has ended.
func TestAnEndedTaskIsAwaitedThroughAnOutage(t *testing.T) {
	t.Parallel()
	rt, ctx := runtimetest.Start(t), bounded(t)
	c := rt.Client().WithRetry(quick)
	task := rt.Submit("c", "p")
	must[bloom.Task](t)(c.Cancel(ctx, task.ID))
	var away atomic.Int32
	rt.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, task.ID) || away.Add(1) > 20 {
			return false
		}
		w.WriteHeader(http.StatusBadGateway)
		return true
	})
	if got := must[bloom.Task](t)(c.Await(ctx, task.ID)); got.Status != bloom.TaskCancelled {
		t.Errorf("%+v", got.TaskState)
	}
}

func TestTheKeyNeverFollowsARedirect(t *testing.T) {
	t.Parallel()
	thief := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { t.Errorf("asked for %s", r.URL) }))
	defer thief.Close()
	server := httptest.NewServer(http.RedirectHandler(thief.URL, http.StatusTemporaryRedirect))
	defer server.Close()
	for _, through := range []*http.Client{nil, {}} {
		c, _ := client.New(server.URL, client.Options{APIKey: "secret", HTTPClient: through})
		defer c.Close()
		if _, err := c.Stats(bounded(t)); err == nil || !strings.Contains(err.Error(), "redirects") {
			t.Errorf("%v", err)
		}
	}
}

func TestAServerThatIsNotARuntimeIsReported(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") }))
	defer server.Close()
	c, _ := client.New(server.URL, client.Options{})
	defer c.Close()
	if _, err := c.Stats(bounded(t)); err == nil || !client.IsUnreachable(err) || !strings.Contains(err.Error(), "other than a BLOOM runtime") {
		t.Fatalf("%v", err)
	}
}

func TestOnlyServerURLsAreAccepted(t *testing.T) {
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
