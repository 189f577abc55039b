package bench

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/storable"
)

// Wire is one client's HTTP/1.1 connection, written and read by the measuring goroutine.
// The SDK's goroutines, timers and decoding would take a fifth of a small machine that
// also runs the server. Not for concurrent use.
type Wire struct {
	conn   net.Conn
	in     *bufio.Reader
	out    []byte
	answer []byte
	path   string // prefix of the routes, such as /api/runtime
	header string // of every request
}

// wireTimeout bounds one request.
const wireTimeout = 30 * time.Second

// Dial connects to the runtime's API at base, as client.BaseURL gives it.
func Dial(ctx context.Context, base, key string) (*Wire, error) {
	u, err := url.Parse(base)
	if err != nil {
		return nil, err
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	address := net.JoinHostPort(u.Hostname(), port)
	var conn net.Conn
	if u.Scheme == "https" {
		conn, err = (&tls.Dialer{Config: &tls.Config{MinVersion: tls.VersionTLS12}}).DialContext(ctx, "tcp", address)
	} else {
		conn, err = (&net.Dialer{}).DialContext(ctx, "tcp", address)
	}
	if err != nil {
		return nil, err
	}
	w := &Wire{conn: conn, in: bufio.NewReaderSize(conn, 16<<10), path: u.EscapedPath()}
	w.header = " HTTP/1.1\r\nHost: " + u.Host + "\r\nUser-Agent: bloom-bench\r\nAccept: application/json\r\nContent-Type: application/json\r\n"
	if key != "" {
		w.header += "X-Runtime-API-Key: " + key + "\r\n"
	}
	return w, nil
}

// Close closes the connection.
func (w *Wire) Close() { _ = w.conn.Close() }

// Post sends body and decodes the response into out. A response other than success is an
// error.
func (w *Wire) Post(route string, body []byte, out any) error {
	if err := w.conn.SetDeadline(time.Now().Add(wireTimeout)); err != nil {
		return err
	}
	w.out = append(w.out[:0], "POST "...)
	w.out = append(append(w.out, w.path...), route...)
	w.out = append(append(w.out, w.header...), "Content-Length: "...)
	w.out = append(strconv.AppendInt(w.out, int64(len(body)), 10), "\r\n\r\n"...)
	if _, err := w.conn.Write(append(w.out, body...)); err != nil {
		return err
	}
	resp, err := http.ReadResponse(w.in, nil)
	if err != nil {
		return fmt.Errorf("POST %s: %w", route, err)
	}
	defer resp.Body.Close()
	if resp.ContentLength >= 0 {
		w.answer = append(w.answer[:0], make([]byte, resp.ContentLength)...)
		_, err = io.ReadFull(resp.Body, w.answer)
	} else {
		w.answer, err = io.ReadAll(resp.Body)
	}
	switch {
	case err != nil:
		return fmt.Errorf("POST %s: %w", route, err)
	case resp.StatusCode/100 != 2:
		return &refusedError{route: route, status: resp.StatusCode, answer: string(w.answer)}
	}
	return json.Unmarshal(w.answer, out)
}

// refusedError is a response other than success.
type refusedError struct {
	route, answer string
	status        int
}

func (e *refusedError) Error() string {
	return fmt.Sprintf("POST %s: %d: %.300s", e.route, e.status, e.answer)
}

// Create creates a task with an idempotency key.
func (w *Wire) Create(context, label string) (task string, err error) {
	var made struct {
		ID string `json:"id"`
	}
	body := `{"context_id":"` + context + `","agent_slug":"bench","prompt":"Measure.","labels":["` + label + `"],"idempotency_key":"` + context + `"}`
	err = w.Post("/llm-tasks", []byte(body), &made)
	return made.ID, err
}

func (w *Wire) lease(task, worker string) (lease string, err error) {
	var granted struct {
		Lease struct {
			ID string `json:"id"`
		} `json:"lease"`
	}
	err = w.Post("/llm-tasks/"+task+"/lease", []byte(`{"worker_id":"`+worker+`"}`), &granted)
	return granted.Lease.ID, err
}

func (w *Wire) heartbeat(task, lease string) error {
	var renewed struct {
		ExpiresAt int64 `json:"expires_at"`
	}
	return w.Post("/llm-tasks/"+task+"/heartbeat", []byte(`{"lease_id":"`+lease+`"}`), &renewed)
}

// Complete completes a task.
func (w *Wire) Complete(task, lease string) error {
	var done struct {
		Task struct {
			Status bloom.TaskStatus `json:"status"`
		} `json:"task"`
	}
	err := w.Post("/llm-tasks/"+task+"/complete", []byte(`{"lease_id":"`+lease+`","status":"success","output":"done"}`), &done)
	if err == nil && done.Task.Status != bloom.TaskCompleted {
		err = fmt.Errorf("the completed task is %q", done.Task.Status)
	}
	return err
}

// Claim claims for a worker that holds leases, and waits for the given number of seconds.
func (w *Wire) Claim(worker, instance string, most, seconds int, holds map[string]bool) ([]bloom.LeasedTask, error) {
	var got struct {
		Leases []bloom.LeasedTask `json:"leases"`
	}
	body := storable.MustJSON(map[string]any{
		"instance_id": instance, "max": most, "wait_sec": seconds, "held": slices.AppendSeq([]string{}, maps.Keys(holds)),
	})
	err := w.Post("/workers/"+worker+"/claim", body, &got)
	return got.Leases, err
}
