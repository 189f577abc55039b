package client_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/client"
	"github.com/bloom-runtime/bloom/internal/proxytest"
)

// TestAnAnswerThatIsNotTheServersIsUnreachable gives every call each response that something other
// than the server may send.
func TestAnAnswerThatIsNotTheServersIsUnreachable(t *testing.T) {
	t.Parallel()
	calls := map[string]func(context.Context, *client.Client) error{
		"submit": func(ctx context.Context, c *client.Client) error {
			_, err := c.Submit(ctx, bloom.TaskSpec{ContextID: "c", AgentSlug: "a", Prompt: "p"})
			return err
		},
		"task": func(ctx context.Context, c *client.Client) error { _, err := c.Task(ctx, "id"); return err },
		"tasks": func(ctx context.Context, c *client.Client) error {
			_, _, err := c.Tasks(ctx, bloom.TaskQuery{})
			return err
		},
		"cancel":  func(ctx context.Context, c *client.Client) error { _, err := c.Cancel(ctx, "id"); return err },
		"requeue": func(ctx context.Context, c *client.Client) error { _, err := c.Requeue(ctx, "id"); return err },
		"results": func(ctx context.Context, c *client.Client) error { _, err := c.Results(ctx, "id"); return err },
		"output":  func(ctx context.Context, c *client.Client) error { _, _, err := c.TaskOutput(ctx, "id"); return err },
		"await":   func(ctx context.Context, c *client.Client) error { _, err := c.Await(ctx, "id"); return err },
		"register": func(ctx context.Context, c *client.Client) error {
			_, err := c.RegisterWorker(ctx, bloom.WorkerSpec{Name: "w"})
			return err
		},
		"remove":  func(ctx context.Context, c *client.Client) error { return c.RemoveWorker(ctx, "w") },
		"drain":   func(ctx context.Context, c *client.Client) error { _, err := c.DrainWorker(ctx, "w", true); return err },
		"worker":  func(ctx context.Context, c *client.Client) error { _, err := c.Worker(ctx, "w"); return err },
		"workers": func(ctx context.Context, c *client.Client) error { _, err := c.Workers(ctx); return err },
		"lease": func(ctx context.Context, c *client.Client) error {
			_, err := c.Lease(ctx, "id", client.LeaseOptions{})
			return err
		},
		"claim": func(ctx context.Context, c *client.Client) error {
			_, err := c.Claim(ctx, "w", client.Claim{})
			return err
		},
		"heartbeat": func(ctx context.Context, c *client.Client) error {
			_, err := c.Heartbeat(ctx, "id", "lease", nil)
			return err
		},
		"events": func(ctx context.Context, c *client.Client) error { return c.AppendEvents(ctx, "id", "lease", nil) },
		"complete": func(ctx context.Context, c *client.Client) error {
			_, err := c.Complete(ctx, "id", bloom.Completion{LeaseID: "lease"})
			return err
		},
		"release": func(ctx context.Context, c *client.Client) error {
			_, err := c.Release(ctx, "id", bloom.ReleaseSpec{LeaseID: "lease"})
			return err
		},
		"artifact": func(ctx context.Context, c *client.Client) error { _, err := c.Artifact(ctx, "id"); return err },
		"audit": func(ctx context.Context, c *client.Client) error {
			_, _, err := c.Audit(ctx, bloom.AuditQuery{})
			return err
		},
		"leases": func(ctx context.Context, c *client.Client) error {
			_, _, err := c.Leases(ctx, bloom.LeaseQuery{})
			return err
		},
		"stats":  func(ctx context.Context, c *client.Client) error { _, err := c.Stats(ctx); return err },
		"health": func(ctx context.Context, c *client.Client) error { _, err := c.Health(ctx); return err },
		"config": func(ctx context.Context, c *client.Client) error { _, err := c.Config(ctx); return err },
		"test":   func(ctx context.Context, c *client.Client) error { _, err := c.TestConnection(ctx); return err },
		"keys":   func(ctx context.Context, c *client.Client) error { _, _, err := c.Keys(ctx, bloom.Page{}); return err },
		"create key": func(ctx context.Context, c *client.Client) error {
			_, err := c.CreateKey(ctx, bloom.KeySpec{})
			return err
		},
		"revoke key":  func(ctx context.Context, c *client.Client) error { _, err := c.RevokeKey(ctx, "id"); return err },
		"end session": func(ctx context.Context, c *client.Client) error { return c.EndSession(ctx, "id") },
		"rotate":      func(ctx context.Context, c *client.Client) error { _, err := c.RotateSecrets(ctx, false); return err },
		"audit chain": func(ctx context.Context, c *client.Client) error {
			_, err := c.AuditChain(ctx, 0, 1)
			return err
		},
		"cancel all": func(ctx context.Context, c *client.Client) error {
			_, err := c.CancelAll(ctx, []string{"id"})
			return err
		},
		"requeue matching": func(ctx context.Context, c *client.Client) error {
			_, err := c.RequeueMatching(ctx, bloom.TasksMatching{AgentSlug: "a"})
			return err
		},
		"context": func(ctx context.Context, c *client.Client) error { _, err := c.Context(ctx, "c"); return err },
		"forget":  func(ctx context.Context, c *client.Client) error { return c.ForgetContext(ctx, "c") },
		"save filter": func(ctx context.Context, c *client.Client) error {
			_, err := c.SaveFilter(ctx, bloom.TaskFilter{Name: "f"})
			return err
		},
		"remove filter": func(ctx context.Context, c *client.Client) error { return c.RemoveFilter(ctx, "f") },
		"problems":      func(ctx context.Context, c *client.Client) error { _, err := c.Problems(ctx); return err },
		"series": func(ctx context.Context, c *client.Client) error {
			_, err := c.Series(ctx, time.Time{}, time.Time{}, 0)
			return err
		},
		"worker logs": func(ctx context.Context, c *client.Client) error { _, err := c.WorkerLogs(ctx, "w"); return err },
		"transcript": func(ctx context.Context, c *client.Client) error {
			_, err := c.TranscriptState(ctx, "id", "lease")
			return err
		},
		"workspace": func(ctx context.Context, c *client.Client) error {
			_, err := c.WorkspaceState(ctx, "id", "lease")
			return err
		},
		"transcript part": func(ctx context.Context, c *client.Client) error {
			_, err := c.PutTranscriptPart(ctx, "id", "lease", nil)
			return err
		},
	}
	for name, answer := range proxytest.Answers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(answer)
			defer server.Close()
			c, err := client.New(server.URL, client.Options{Retry: client.NoRetry})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			for call, do := range calls {
				err := do(bounded(t), c)
				if !client.IsUnreachable(err) {
					t.Errorf("%s: %v", call, err)
				}
				if k := bloom.KindOf(err); k != bloom.KindInternal {
					t.Errorf("%s: of kind %v, as though the server had said so", call, k)
				}
			}
		})
	}
}

func TestARetryIsReported(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(proxytest.Answers["502 HTML"])
	defer server.Close()
	var retries []error
	c, err := client.New(server.URL, client.Options{
		Retry:   client.Retry{Tries: 3, Base: time.Millisecond},
		OnRetry: func(err error, wait time.Duration) { retries = append(retries, err) },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Stats(bounded(t)); !client.IsUnreachable(err) {
		t.Error(err)
	}
	if len(retries) != 2 || !client.IsUnreachable(retries[0]) {
		t.Errorf("retries: %v", retries)
	}
}

// TestADegradedRuntimeStillAnswers: its health report does not have the form of an error.
func TestADegradedRuntimeStillAnswers(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, `{"status":"degraded","service":"bloom-runtime","uptime":1,"storage":"sqlite"}`)
	}))
	defer server.Close()
	c, _ := client.New(server.URL, client.Options{Retry: client.NoRetry})
	defer c.Close()
	_, err := c.Health(bounded(t))
	var refused *client.APIError
	if !errors.As(err, &refused) || refused.Status != http.StatusServiceUnavailable || client.IsUnreachable(err) {
		t.Errorf("%v", err)
	}
}
