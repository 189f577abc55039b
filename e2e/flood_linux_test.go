package e2e_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/client"
)

// floods are hostile requests without a key.
var floods = []string{
	"GET /api/runtime/stats HTTP/1.1\r\nHost: h\r\n\r\n",
	"GET /api/runtime/llm-tasks HTTP/1.1\r\nHost: h\r\nX-Runtime-API-Key: not-a-key-0123456789\r\n\r\n",
	"GET /nothing/" + strings.Repeat("x", 900) + " HTTP/1.1\r\nHost: h\r\nX-Forwarded-For: 198.51.100.%d\r\n\r\n",
	"POST /api/runtime/llm-tasks HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n[[",
	"POST /api/runtime/session HTTP/1.1\r\nHost: h\r\nContent-Length: 17\r\n\r\n{\"key\":\"%07d\"}",
	"GET /readyz HTTP/1.1\r\nHost: h\r\nX: " + strings.Repeat("y", 8000) + "\r\n\r\n",
	"POST /api/runtime/test-connection HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n",
}

// TestAFloodDelaysNobody sends hostile requests as fast as the machine allows while 100 tasks run.
// BLOOM_FLOOD sets a minimum duration: "20s".
func TestAFloodDelaysNobody(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	server := h.serve("--no-membridge")
	var sent atomic.Int64
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var flood sync.WaitGroup
	for i := range 16 {
		flood.Go(func() {
			for n := i; ctx.Err() == nil; n++ {
				sent.Add(floodOnce(ctx, strings.TrimPrefix(h.url, "http://"), n))
			}
		})
	}
	began, ownBefore := time.Now(), processorTime(t, os.Getpid())
	admin, err := client.New(h.url, client.Options{APIKey: adminKey})
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	tasks := completeUnder(t, admin, 100)
	if least, err := time.ParseDuration(os.Getenv("BLOOM_FLOOD")); err == nil {
		select {
		case <-time.After(least - time.Since(began)):
		case <-ctx.Done():
		}
	}
	took := time.Since(began)
	stop()
	flood.Wait()
	peak := peakMemory(t, server.cmd.Process.Pid)
	used, own := processorTime(t, server.cmd.Process.Pid), processorTime(t, os.Getpid())-ownBefore
	t.Logf("%d tasks ran while %d hostile requests were answered in %.1f s (%.0f/s); the server used %.1f s of processor, at most %.0f µs a request, and this test %.1f s; peak memory %d MiB",
		tasks, sent.Load(), took.Seconds(), float64(sent.Load())/took.Seconds(), used.Seconds(), float64(used.Microseconds())/float64(max(1, sent.Load())), own.Seconds(), peak>>10)
	limit := int64(300 << 10)
	if len(buildFlags) > 0 {
		limit *= 4 // the race detector's own records: five to ten times the memory
	}
	if int64(peak) > limit {
		t.Errorf("the server took %d MiB", peak>>10)
	}
	if lines := strings.Count(server.out.String(), "\n"); int64(lines) > 3000+sent.Load()/20 {
		t.Errorf("%d lines were logged", lines)
	}
}

// completeUnder creates n tasks and completes them with four workers.
func completeUnder(t *testing.T, admin *client.Client, n int) int {
	t.Helper()
	ctx, done := context.WithTimeout(t.Context(), patience)
	defer done()
	before, err := admin.Stats(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var completed atomic.Int64
	var all sync.WaitGroup
	for i := range 4 {
		name := "w" + strconv.Itoa(i)
		if _, err := admin.RegisterWorker(ctx, bloom.WorkerSpec{Name: name, InstanceID: name, Capabilities: bloom.Capabilities{ClaudeCLI: true, MaxConcurrency: 8}}); err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			for completed.Load() < int64(n) && ctx.Err() == nil {
				got, err := admin.Claim(ctx, name, client.Claim{InstanceID: name, Max: 8, Wait: time.Second})
				if err != nil {
					t.Error(err)
					return
				}
				for _, l := range got.Leases {
					output := "done"
					if _, err := admin.Complete(ctx, l.Task.ID, bloom.Completion{LeaseID: l.Lease.ID, Status: bloom.OutcomeSuccess, Output: &output}); err != nil {
						t.Error(err)
						return
					}
					completed.Add(1)
				}
			}
		})
	}
	for range n {
		if _, err := admin.Submit(ctx, bloom.TaskSpec{ContextID: "c", AgentSlug: "a", Prompt: "p"}); err != nil {
			t.Error(err)
		}
	}
	all.Wait()
	st, err := admin.Stats(ctx)
	if err != nil || st.Tasks.ByStatus[bloom.TaskCompleted] != before.Tasks.ByStatus[bloom.TaskCompleted]+int64(n) {
		t.Errorf("%v of %d tasks are completed: %v", st.Tasks.ByStatus, n, err)
	}
	return int(completed.Load())
}

// floodOnce sends requests over one connection, pipelined, and counts the responses.
func floodOnce(ctx context.Context, addr string, n int) (answered int64) {
	conn, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return 0
	}
	defer conn.Close()
	end := context.AfterFunc(ctx, func() { conn.Close() })
	defer end()
	in := bufio.NewReader(conn)
	for round := range 20 {
		var batch strings.Builder
		kinds := 0
		for k := range 16 {
			request := floods[(n+round+k)%len(floods)]
			if strings.Contains(request, "%") {
				request = fmt.Sprintf(request, k)
			}
			batch.WriteString(request)
			kinds++
		}
		_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
		if _, err := io.WriteString(conn, batch.String()); err != nil {
			return answered
		}
		for range kinds {
			if !skipAnswer(in) {
				return answered
			}
			answered++
		}
	}
	return answered
}

// skipAnswer reads a response with a stated length as cheaply as possible, because the server
// shares the processors.
func skipAnswer(in *bufio.Reader) bool {
	length := int64(-1)
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return false
		}
		if len(line) <= 2 {
			break
		}
		if value, is := bytes.CutPrefix(line, []byte("Content-Length: ")); is {
			if length, err = strconv.ParseInt(string(bytes.TrimSpace(value)), 10, 64); err != nil {
				return false
			}
		}
	}
	if length < 0 {
		return false // chunked, or ended with the connection
	}
	_, err := io.CopyN(io.Discard, in, length)
	return err == nil
}

// peakMemory returns a process's peak memory, in KiB.
func peakMemory(t *testing.T, pid int) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if value, is := strings.CutPrefix(line, "VmHWM:"); is {
			kib, err := strconv.Atoi(strings.Fields(value)[0])
			if err != nil {
				t.Fatal(err)
			}
			return kib
		}
	}
	t.Fatal("no VmHWM")
	return 0
}

// processorTime returns the CPU time that a process has used.
func processorTime(t *testing.T, pid int) time.Duration {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:])) // from the third on, see proc(5)
	ticks := 0
	for _, field := range fields[11:13] {
		n, err := strconv.Atoi(field)
		if err != nil {
			t.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond // 100 a second on every Linux
}
