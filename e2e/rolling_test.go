package e2e_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
)

// TestReplicasAreRestartedOneAfterTheOther upgrades two servers behind nginx as
// docs/guides/postgresql.md says: each is stopped in order and restarted while the other one
// serves, repeatedly under load. The SDK's callers see no failure; a request that a server has
// begun to read when it is stopped is answered; every acknowledged task ends once, in its first
// attempt. Requests without retries see no failure either, except for the rare POST that nginx
// sends on a connection which the server is closing.
func TestReplicasAreRestartedOneAfterTheOther(t *testing.T) {
	t.Parallel()
	h := behindNginx(t, 3)
	stop := make(chan struct{})
	var load sync.WaitGroup
	for range 3 {
		load.Go(func() { h.postUntil(t, stop) })
	}
	seen := &statuses{n: map[string]int{}}
	for range 4 {
		load.Go(func() { seen.ask(t, h.web, stop) })
	}
	for i := range 6 {
		time.Sleep(300 * time.Millisecond) // the restart's moment, not a wait for something
		r := h.replicas[i%2]
		r.leave(t, fmt.Sprint("in progress ", i))
		r.begin()
	}
	close(stop)
	load.Wait()
	seen.verify(t, "over 6 restarts")
	eventually(t, "every task has ended", func() bool {
		s, err := h.api.Stats(t.Context())
		return err == nil && s.Tasks.Total > 0 && s.Tasks.ByStatus[bloom.TaskCompleted] == s.Tasks.Total
	})
	h.everyTaskRanOnce(t)
	if stats, err := h.api.Stats(t.Context()); err != nil || stats.Leases.Total != stats.Tasks.Total {
		t.Errorf("%d tasks took %d leases, %v", stats.Tasks.Total, stats.Leases.Total, err)
	}
}

// leave stops the replica in order while it reads a creation, whose rest is sent only when the
// server no longer accepts connections.
func (r *replica) leave(t *testing.T, key string) {
	t.Helper()
	const body = `{"context_id":"in progress","agent_slug":"assistant","prompt":"say done-2; and nothing else"}`
	reading := make(chan struct{})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	rest, send := io.Pipe()
	req, err := http.NewRequestWithContext(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{Got100Continue: func() { close(reading) }}),
		http.MethodPost, "http://"+r.address+"/api/runtime/llm-tasks", rest)
	if err != nil {
		t.Fatal(err)
	}
	req.ContentLength = int64(len(body))
	for name, value := range map[string]string{
		"X-Runtime-API-Key": adminKey, "Content-Type": "application/json", "Idempotency-Key": key, "Expect": "100-continue",
	} {
		req.Header.Set(name, value)
	}
	answered := make(chan error, 1)
	go func() {
		of := &http.Transport{ExpectContinueTimeout: patience}
		defer of.CloseIdleConnections()
		resp, err := of.RoundTrip(req)
		if err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode != http.StatusCreated {
				err = fmt.Errorf("status %d", resp.StatusCode)
			}
		}
		_ = rest.CloseWithError(io.ErrClosedPipe) // unblocks the writer
		answered <- err
	}()
	select {
	case <-reading:
	case err := <-answered:
		t.Fatalf("a creation was not read: %v", err)
	}
	r.proc.signal(syscall.SIGTERM)
	eventually(t, "the replica lets nobody in", func() bool {
		c, err := new(net.Dialer).DialContext(ctx, "tcp", r.address)
		if err == nil {
			_ = c.Close()
		}
		return err != nil
	})
	_, _ = io.WriteString(send, body)
	_ = send.Close()
	if err := <-answered; err != nil {
		t.Errorf("a creation that the server was reading when it was stopped: %v", err)
	}
	if code := r.proc.wait(); code != 0 {
		t.Errorf("%s ended with code %d", r.proc.name, code)
	}
}

// everyTaskRanOnce expects one run and one result for each task.
func (s *site) everyTaskRanOnce(t *testing.T) {
	t.Helper()
	stats, err := s.api.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for task, err := range s.api.AllTasks(t.Context(), bloom.TaskQuery{}) {
		if err != nil {
			t.Fatal(err)
		}
		results, err := s.api.Results(t.Context(), task.ID)
		if err != nil || len(results) != 1 || task.Attempts != 1 {
			t.Errorf("task %s has %d results after %d attempts, %v", task.ID, len(results), task.Attempts, err)
		}
	}
	log, err := os.ReadFile(s.runs)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(strings.Fields(string(log))); n != int(stats.Tasks.Total) {
		t.Errorf("%d runs for %d tasks", n, stats.Tasks.Total)
	}
	t.Logf("%d tasks, %d leases", stats.Tasks.Total, stats.Leases.Total)
}
