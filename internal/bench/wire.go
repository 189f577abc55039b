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
)

// wire is one client's HTTP/1.1 connection, written and read by the measuring goroutine.
// The SDK's goroutines, timers and decoding would take a fifth of a small machine that
// also runs the server. Not for concurrent use.
type wire struct {
	conn   net.Conn
	in     *bufio.Reader
	out    []byte
	answer []byte
	path   string // prefix of the routes, such as /api/runtime
	header string // of every request
}

// wireTimeout bounds one request.
const wireTimeout = 30 * time.Second

// dial connects to the runtime's API at base, as client.BaseURL gives it.
func dial(ctx context.Context, base, key string) (*wire, error) {
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
	w := &wire{conn: conn, in: bufio.NewReaderSize(conn, 16<<10), path: u.EscapedPath()}
	w.header = " HTTP/1.1\r\nHost: " + u.Host + "\r\nUser-Agent: bloom-bench\r\nAccept: application/json\r\nContent-Type: application/json\r\n"
	if key != "" {
		w.header += "X-Runtime-API-Key: " + key + "\r\n"
	}
	return w, nil
}

func (w *wire) close() { _ = w.conn.Close() }

// post sends body and decodes the response into out. A response other than success is an
// error.
func (w *wire) post(route string, body []byte, out any) error {
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

// create creates a task with an idempotency key.
func (w *wire) create(context, label string) (task string, err error) {
	var made struct {
		ID string `json:"id"`
	}
	body := `{"context_id":"` + context + `","agent_slug":"bench","prompt":"Measure.","labels":["` + label + `"],"idempotency_key":"` + context + `"}`
	err = w.post("/llm-tasks", []byte(body), &made)
	return made.ID, err
}

func (w *wire) lease(task, worker string) (lease string, err error) {
	var granted struct {
		Lease struct {
			ID string `json:"id"`
		} `json:"lease"`
	}
	err = w.post("/llm-tasks/"+task+"/lease", []byte(`{"worker_id":"`+worker+`"}`), &granted)
	return granted.Lease.ID, err
}

func (w *wire) heartbeat(task, lease string) error {
	var renewed struct {
		ExpiresAt int64 `json:"expires_at"`
	}
	return w.post("/llm-tasks/"+task+"/heartbeat", []byte(`{"lease_id":"`+lease+`"}`), &renewed)
}

func (w *wire) complete(task, lease string) error {
	var done struct {
		Task struct {
			Status bloom.TaskStatus `json:"status"`
		} `json:"task"`
	}
	err := w.post("/llm-tasks/"+task+"/complete", []byte(`{"lease_id":"`+lease+`","status":"success","output":"done"}`), &done)
	if err == nil && done.Task.Status != bloom.TaskCompleted {
		err = fmt.Errorf("the completed task is %q", done.Task.Status)
	}
	return err
}

// events sends a task's events, in lines of JSON.
func (w *wire) events(task, lease string, lines []byte) error {
	var accepted map[string]any
	return w.post("/llm-tasks/"+task+"/events?lease_id="+lease, lines, &accepted)
}

// claim is one long poll of a worker that holds leases.
func (w *wire) claim(worker, instance string, most int, holds map[string]bool) ([]bloom.LeasedTask, error) {
	return w.claimWithin(worker, instance, most, fleetWait, holds)
}

func (w *wire) claimWithin(worker, instance string, most, seconds int, holds map[string]bool) ([]bloom.LeasedTask, error) {
	var got struct {
		Leases []bloom.LeasedTask `json:"leases"`
	}
	body := bloom.MustJSON(map[string]any{
		"instance_id": instance, "max": most, "wait_sec": seconds, "held": slices.AppendSeq([]string{}, maps.Keys(holds)),
	})
	err := w.post("/workers/"+worker+"/claim", body, &got)
	return got.Leases, err
}
