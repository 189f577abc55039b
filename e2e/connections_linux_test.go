package e2e_test

import (
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/client"
)

// occupy opens connections, sends only the text on each, and keeps them open.
func occupy(t *testing.T, address string, n int, text string) {
	t.Helper()
	for range n {
		conn, err := (&net.Dialer{Timeout: patience}).DialContext(t.Context(), "tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		if _, err := io.WriteString(conn, text); err != nil && text != "" {
			t.Fatal(err)
		}
	}
}

// TestIdleAndHalfSentConnectionsDelayNobody opens 1,000 idle connections and 1,000 with half a
// request, with room for all of them and with room for 100. A waiting claim continues, and tasks
// are created, claimed and completed.
func TestIdleAndHalfSentConnectionsDelayNobody(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{"room for all": nil, "room for 100": {"--max-connections", "100"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t)
			server := h.serve(append(args, "--no-membridge")...)
			admin, err := client.New(h.url, client.Options{APIKey: adminKey})
			if err != nil {
				t.Fatal(err)
			}
			defer admin.Close()
			ctx, done := context.WithTimeout(t.Context(), patience)
			defer done()
			able := bloom.Capabilities{ClaudeCLI: true, MaxConcurrency: 8}
			if _, err := admin.RegisterWorker(ctx, bloom.WorkerSpec{Name: "early", InstanceID: "early", Capabilities: able}); err != nil {
				t.Fatal(err)
			}
			early := make(chan error, 1)
			go func() { // it waits while the others come
				got, err := admin.Claim(ctx, "early", client.Claim{InstanceID: "early", Max: 1, Wait: time.Minute})
				if err == nil && len(got.Leases) == 1 {
					output := "done"
					_, err = admin.Complete(ctx, got.Leases[0].Task.ID, bloom.Completion{LeaseID: got.Leases[0].Lease.ID, Status: bloom.OutcomeSuccess, Output: &output})
				}
				early <- err
			}()
			eventually(t, "the claim waits", func() bool {
				w, err := admin.Worker(ctx, "early")
				return err == nil && w.Status == bloom.WorkerOnline
			})
			address := strings.TrimPrefix(h.url, "http://")
			occupy(t, address, 1000, "")
			occupy(t, address, 1000, "POST /api/runtime/llm-tasks HTTP/1.1\r\nHost: h\r\nContent-Length: 1000\r\nX-Slow: ")
			if _, err := admin.Submit(ctx, bloom.TaskSpec{ContextID: "c", AgentSlug: "a", Prompt: "p"}); err != nil {
				t.Fatal(err)
			}
			if err := <-early; err != nil {
				t.Errorf("the claim that waited: %v", err)
			}
			completeUnder(t, admin, 20)
			if closed := strings.Contains(server.out.String(), "too many connections"); closed != (args != nil) {
				t.Errorf("connections were closed for others: %t", closed)
			}
		})
	}
}
