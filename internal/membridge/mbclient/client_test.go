package mbclient_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/membridge/mbclient"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type fixedClock struct{}

func (fixedClock) Now() time.Time { return time.UnixMilli(1_772_042_245_043) }

// firstWait is short, so that tests need not wait; what the waits are otherwise, see
// the package retry.
const firstWait = 10 * time.Millisecond

func dial(t testing.TB, url string, change ...func(*mbclient.Options)) *mbclient.Client {
	t.Helper()
	opt := mbclient.Options{URL: url, Key: "the-admin-key-of-a-test", Clock: fixedClock{}, Backoff: firstWait}
	for _, c := range change {
		c(&opt)
	}
	c, err := mbclient.New(opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func serve(t testing.TB, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

func code(err error) string {
	var e *bloom.Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

func TestOnlyWhatMayBeRepeatedIsRepeatedWithGrowingWaits(t *testing.T) {
	t.Parallel()
	var tries atomic.Int64
	url := serve(t, func(w http.ResponseWriter, _ *http.Request) { tries.Add(1); w.WriteHeader(503) })
	for _, c := range []struct {
		name  string
		call  func(*mbclient.Client) error
		tries int
	}{
		{"a read", func(c *mbclient.Client) error { _, err := c.Agents(t.Context()); return err }, 4},
		{"a registration", func(c *mbclient.Client) error {
			_, err := c.RegisterAgent(t.Context(), mbclient.Registration{})
			return err
		}, 4},
		{"a passed-on POST", func(c *mbclient.Client) error { _, _, err := c.Do(t.Context(), "POST", "/x", nil); return err }, 1},
		{"a passed-on GET", func(c *mbclient.Client) error { _, _, err := c.Do(t.Context(), "GET", "/x", nil); return err }, 4},
		{"a health check", func(c *mbclient.Client) error { _, err := c.Health(t.Context()); return err }, 1},
	} {
		tries.Store(0)
		client := dial(t, url)
		began := time.Now()
		if err := c.call(client); code(err) != bloom.CodeMembridgeFailed {
			t.Errorf("%s: %v", c.name, err)
		}
		if took := time.Since(began); int(tries.Load()) != c.tries || took < firstWait*(1<<(c.tries-1)-1) {
			t.Errorf("%s: %d tries in %v", c.name, tries.Load(), took)
		}
		if s := client.State(); s.ConsecutiveFailures != c.tries || s.Connected || *s.LastError != "Membridge answered 503" {
			t.Errorf("%s: state %+v", c.name, s)
		}
	}
}

func TestRecoveryShowsInTheState(t *testing.T) {
	t.Parallel()
	var broken atomic.Bool
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if broken.Load() {
			w.WriteHeader(500)
			return
		}
		io.WriteString(w, `[]`)
	})
	client := dial(t, url)
	asJSON := func() string { b, _ := json.Marshal(client.State()); return string(b) }
	if got := asJSON(); got != `{"consecutiveFailures":0,"lastSuccess":null,"lastError":null,"connected":false}` {
		t.Error(got)
	}
	broken.Store(true)
	client.Agents(t.Context())
	if got := asJSON(); got != `{"consecutiveFailures":4,"lastSuccess":null,"lastError":"Membridge answered 500","connected":false}` {
		t.Error(got)
	}
	broken.Store(false)
	if _, err := client.Agents(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := asJSON(); got != `{"consecutiveFailures":0,"lastSuccess":1772042245043,"lastError":null,"connected":true}` {
		t.Error(got)
	}
}

func TestAJobThatAnAgentDidNotCarryOutIsAnAnswer(t *testing.T) {
	t.Parallel()
	body := `{"detail":"Agent unreachable: it is offline","job_id":"j1"}`
	client := dial(t, serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(502)
		io.WriteString(w, body)
	}))
	status, answer, err := client.Do(t.Context(), "POST", "/sync/push", []byte(`{}`))
	if err != nil || status != 502 || string(answer) != body || !client.State().Connected {
		t.Errorf("%d %s %v, %+v", status, answer, err, client.State())
	}
	for _, body = range []string{`{"detail":"bad gateway"}`, `<html>`, ``, `{"job_id":"j1"}`} {
		if _, _, err := client.Do(t.Context(), "POST", "/sync/push", []byte(`{}`)); code(err) != bloom.CodeMembridgeFailed {
			t.Errorf("%q: %v", body, err)
		}
	}
}

func Test4xxComesBackAtOnce(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		status := map[string]int{"/missing": 404, "/conflict": 409, "/no": 401, "/never": 403}[r.URL.Path]
		w.WriteHeader(status)
		io.WriteString(w, `{"detail":"so it is"}`)
	})
	client := dial(t, url)
	for path, want := range map[string]int{"/missing": 404, "/conflict": 409} {
		status, body, err := client.Do(t.Context(), "GET", path, nil)
		if status != want || err != nil || string(body) != `{"detail":"so it is"}` || !client.State().Connected {
			t.Errorf("%s: %d %s %v", path, status, body, err)
		}
	}
	for _, path := range []string{"/no", "/never"} {
		if _, _, err := client.Do(t.Context(), "GET", path, nil); code(err) != bloom.CodeMembridgeForbidden {
			t.Errorf("%s: %v", path, err)
		}
	}
	if asked.Load() != 4 || client.State().Connected {
		t.Errorf("asked %d times, state %+v", asked.Load(), client.State())
	}
}

func TestBothShapesOfAgentsAndStrangeOnes(t *testing.T) {
	t.Parallel()
	full := `{"name":"a","status":"online","last_seen":1772042245.5,"registered_at":"2026-02-25T17:57:25Z","capabilities":{"claude_cli":false,"max_concurrency":99,"labels":null}}`
	bare := `{"name":"b","status":"ready","last_seen":null}`
	want := []mbclient.Agent{
		{Name: "a", NodeID: "a", Status: "online", LastSeen: 1772042245500, RegisteredAt: 1772042245000, IPAddrs: []string{},
			Capabilities: bloom.Capabilities{MaxConcurrency: 32, Labels: []string{}}},
		{Name: "b", NodeID: "b", Status: "unknown", IPAddrs: []string{}, Capabilities: bloom.Capabilities{ClaudeCLI: true, MaxConcurrency: 1, Labels: []string{}}},
	}
	for _, c := range []struct {
		body    string
		want    []mbclient.Agent
		code    string
		skipped int
		why     string
	}{
		{"[" + full + "," + bare + "]", want, "", 0, ""},
		{` {"agents":[` + full + "," + bare + "]}", want, "", 0, ""},
		{`[` + full + `,{"name":7},{"name":" "},3,` + bare + `]`, want, "", 3, "entry 2 is not an agent"},
		{`[` + full + `,{"name":" "},` + bare + `]`, want, "", 1, "entry 2 has no name"},
		{`[{"name":".."},{"name":"a/b"},{"name":"."},{"name":"a\u0007"},` + full + `,` + bare + `]`, want, "", 4, "entry 1 has a name that does not fit into a URL"},
		{`[]`, []mbclient.Agent{}, "", 0, ""},
		{`{"agents":[]}`, []mbclient.Agent{}, "", 0, ""},
		{body: `[1,2,3]`, code: bloom.CodeMembridgeStrange},
		{body: `{}`, code: bloom.CodeMembridgeStrange},
		{body: `null`, code: bloom.CodeMembridgeStrange},
		{body: `<html>hello</html>`, code: bloom.CodeMembridgeStrange},
		{body: ``, code: bloom.CodeMembridgeStrange},
	} {
		client := dial(t, serve(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, c.body) }))
		got, err := client.Agents(t.Context())
		if diff := cmp.Diff(c.want, got); diff != "" || code(err) != c.code {
			t.Errorf("%s: %v %s", c.body, err, diff)
		}
		if s := client.State(); s.Connected != (c.code == "") || s.SkippedAgents != c.skipped || s.SkippedWhy != c.why {
			t.Errorf("%s: state %+v", c.body, s)
		}
	}
}

func TestValidJSONIsNotYetAnAnswer(t *testing.T) {
	t.Parallel()
	const leadership, selected = "/projects/c/leadership", `{"ok":true,"canonical_id":"c","primary_node_id":"n"}`
	for _, c := range []struct {
		method, path string
		status       int
		body, code   string
	}{
		{"GET", "/health", 200, `{"status":"ok"}`, ""},
		{"GET", "/health", 200, `{"status":"ok","service":"membridge-control-plane"}`, ""},
		{"GET", "/health", 200, `{"status":"ok","service":"bloom-runtime"}`, bloom.CodeMembridgeStrange},
		{"GET", "/health", 200, `{}`, bloom.CodeMembridgeStrange},
		{"GET", "/health", 200, `[]`, bloom.CodeMembridgeStrange},
		{"GET", "/projects", 200, `[]`, ""},
		{"GET", "/projects", 200, `{"hello":"world"}`, bloom.CodeMembridgeStrange},
		{"GET", "/projects", 200, `null`, bloom.CodeMembridgeStrange},
		{"GET", "/projects/c/nodes", 200, `[1]`, bloom.CodeMembridgeStrange},
		{"GET", leadership, 200, `{"canonical_id":"c","preferred_primary":null}`, ""},
		{"GET", leadership, 200, `{"ok":true}`, bloom.CodeMembridgeStrange},
		{"POST", leadership + "/select", 200, selected, ""},
		{"POST", leadership + "/select", 200, `{"ok":true}`, bloom.CodeMembridgeStrange},
		{"GET", "/projects", 404, `{"detail":"no"}`, ""},
		{"GET", "/projects", 422, `{"detail":[{"loc":["body"],"msg":"m"}]}`, ""},
		{"GET", "/projects", 404, `<html>nginx</html>`, bloom.CodeMembridgeStrange},
		{"GET", "/projects", 404, `{"message":"no"}`, bloom.CodeMembridgeStrange},
		{"GET", "/projects", 302, ``, bloom.CodeMembridgeElsewhere},
		{"GET", "/projects", 500, `{"detail":"no"}`, bloom.CodeMembridgeFailed},
	} {
		client := dial(t, serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(c.status); io.WriteString(w, c.body) }))
		_, _, err := client.Do(t.Context(), c.method, c.path, nil)
		if code(err) != c.code || client.State().Connected != (c.code == "") {
			t.Errorf("%s %s, %d %s: %v, state %+v", c.method, c.path, c.status, c.body, err, client.State())
		}
	}
	// Health and the agents are never refused but for the key.
	client := dial(t, serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(422); io.WriteString(w, `{"detail":"no"}`) }))
	if _, err := client.Health(t.Context()); code(err) != bloom.CodeMembridgeStrange || !strings.Contains(err.Error(), "422") {
		t.Errorf("health: %v", err)
	}
	if _, err := client.Agents(t.Context()); code(err) != bloom.CodeMembridgeStrange || client.State().Connected {
		t.Errorf("agents: %v, state %+v", err, client.State())
	}
}

// monsters are peers that no client should meet. Each must end within the
// bounds, and leave no goroutine behind (TestMain checks as well).
func TestMonstersAreBoundedAndLeaveNoGoroutine(t *testing.T) {
	raw := func(say func(net.Conn)) string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		var open sync.WaitGroup
		open.Go(func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				open.Go(func() { defer conn.Close(); say(conn) })
			}
		})
		t.Cleanup(func() { l.Close(); open.Wait() })
		return "http://" + l.Addr().String()
	}
	drip := func(conn net.Conn) {
		io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\n[")
		for {
			if _, err := conn.Write([]byte(" ")); err != nil {
				return
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
	monsters := map[string]string{
		"hangs before it answers": raw(func(c net.Conn) { io.Copy(io.Discard, c) }),
		"answers ever so slowly":  raw(drip),
		"answers without end": raw(func(c net.Conn) {
			io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n")
			for chunk := strings.Repeat("x", 1<<16); ; {
				if _, err := io.WriteString(c, chunk); err != nil {
					return
				}
			}
		}),
		"speaks no HTTP":        raw(func(c net.Conn) { io.WriteString(c, "220 mail ready\r\n") }),
		"hangs up":              raw(func(net.Conn) {}),
		"promises more than is": raw(func(c net.Conn) { io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n[]") }),
		"is not there":          "http://127.0.0.1:1",
		"has no such name":      "http://membridge.invalid:8000",
		"sends elsewhere": serve(t, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/agents/", http.StatusTemporaryRedirect)
		}),
		"is somebody's web page": serve(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "<html>") }),
	}
	before := runtime.NumGoroutine()
	for name, url := range monsters {
		client := dial(t, url, func(o *mbclient.Options) { o.Timeout, o.MaxResponse = 100*time.Millisecond, 1<<20 })
		for range 3 {
			_, err := client.Agents(t.Context())
			var e *bloom.Error
			if !errors.As(err, &e) || e.Kind != bloom.KindUpstream || strings.Contains(e.Message, "127.0.0.1") {
				t.Errorf("%s: %v", name, err)
			}
			if s := client.State(); s.Connected || s.LastError == nil || s.ConsecutiveFailures == 0 {
				t.Errorf("%s: state %+v", name, s)
			}
		}
		client.Close()
	}
	for end := time.Now().Add(time.Minute); runtime.NumGoroutine() > before+5; {
		if time.Now().After(end) {
			t.Fatalf("%d goroutines, %d before", runtime.NumGoroutine(), before)
		}
		runtime.Gosched()
	}
}

func TestACallerThatGivesUpIsNotMembridgesFailure(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	var asked atomic.Int64
	url := serve(t, func(http.ResponseWriter, *http.Request) { asked.Add(1); cancel() })
	client := dial(t, url)
	for range 2 {
		if _, err := client.Agents(ctx); err == nil {
			t.Fatal("an answer for a caller that has gone")
		}
	}
	if client.State().ConsecutiveFailures != 0 || asked.Load() != 1 {
		t.Errorf("state %+v, asked %d times", client.State(), asked.Load())
	}
}

func TestAChangedAddressAndKeyAreUsedAtOnce(t *testing.T) {
	t.Parallel()
	seen := make(chan string, 4)
	handler := func(name string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			seen <- name + " " + r.Header.Get("X-MEMBRIDGE-ADMIN")
			io.WriteString(w, "[]")
		}
	}
	client := dial(t, serve(t, handler("first")))
	client.Agents(t.Context())
	second := serve(t, handler("second"))
	if err := client.Configure(second+"/", "another-key"); err != nil {
		t.Fatal(err)
	}
	if s := client.State(); s.LastSuccess != nil || client.URL() != second {
		t.Errorf("state of the old address: %+v at %s", s, client.URL())
	}
	client.Agents(t.Context())
	if a, b := <-seen, <-seen; a != "first the-admin-key-of-a-test" || b != "second another-key" {
		t.Errorf("seen %q, %q", a, b)
	}
	for _, bad := range []string{"ftp://x", "http://u:p@x", "x", "http://x/?k=v", "http://"} {
		if client.Configure(bad, "") == nil || client.URL() != second {
			t.Errorf("%s was taken", bad)
		}
	}
	if client.Configure(second, "a\nb") == nil {
		t.Error("a key of two lines was taken")
	}
	client.Configure("", "")
	if _, err := client.Agents(t.Context()); code(err) != bloom.CodeMembridgeDown {
		t.Errorf("without an address: %v", err)
	}
}

func TestTheAddressPolicyHoldsAtDialTime(t *testing.T) {
	t.Parallel()
	var reached atomic.Bool
	url := serve(t, func(http.ResponseWriter, *http.Request) { reached.Store(true) })
	client := dial(t, strings.Replace(url, "127.0.0.1", "localhost", 1), func(o *mbclient.Options) {
		o.AddressPolicy = func(a netip.Addr) error {
			if a.IsLoopback() {
				return errors.New("no loopback")
			}
			return nil
		}
	})
	if _, err := client.Agents(t.Context()); err == nil || reached.Load() || !strings.Contains(err.Error(), "policy") {
		t.Errorf("reached %v, %v", reached.Load(), err)
	}
}

func TestTheSameRouteIsAskedForEveryCall(t *testing.T) {
	t.Parallel()
	var asked []string
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		asked = append(asked, r.Method+" "+r.URL.EscapedPath()+" "+string(b))
		io.WriteString(w, `{}`)
	})
	c := dial(t, url)
	ctx := t.Context()
	c.Health(ctx)
	c.Check(ctx)
	c.AgentHeartbeat(ctx, "w 1", mbclient.Heartbeat{WaitSec: 5})
	want := []string{"GET /health ", "GET /projects ", `POST /agents/w%201/heartbeat {"wait_sec":5}`}
	if !slices.Equal(asked, want) {
		t.Error(cmp.Diff(want, asked))
	}
}
