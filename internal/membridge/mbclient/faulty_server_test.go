package mbclient_test

import (
	"errors"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/membridge/mbclient"
)

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
		{body: `[1,2,3]`, code: bloom.CodeMembridgeInvalidResponse},
		{body: `{}`, code: bloom.CodeMembridgeInvalidResponse},
		{body: `null`, code: bloom.CodeMembridgeInvalidResponse},
		{body: `<html>hello</html>`, code: bloom.CodeMembridgeInvalidResponse},
		{body: ``, code: bloom.CodeMembridgeInvalidResponse},
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

func TestTheAdminKeyFollowsNoRedirectAndHeadersAreBounded(t *testing.T) {
	t.Parallel()
	elsewhere := serve(t, func(w http.ResponseWriter, r *http.Request) {
		t.Errorf("asked for %s with the key %q", r.URL, r.Header.Get("X-Membridge-Admin"))
		io.WriteString(w, "[]")
	})
	for what, answer := range map[string]http.HandlerFunc{
		"a redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere, http.StatusTemporaryRedirect)
		},
		"huge headers": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Long", strings.Repeat("x", 1<<20))
			io.WriteString(w, "[]")
		},
	} {
		if got, err := dial(t, serve(t, answer)).Agents(t.Context()); err == nil {
			t.Errorf("%s: %v", what, got)
		}
	}
}

func TestValidJSONIsNotNecessarilyAResponse(t *testing.T) {
	t.Parallel()
	const leadership, selected = "/projects/c/leadership", `{"ok":true,"canonical_id":"c","primary_node_id":"n"}`
	for _, c := range []struct {
		method, path string
		status       int
		body, code   string
	}{
		{"GET", "/health", 200, `{"status":"ok"}`, ""},
		{"GET", "/health", 200, `{"status":"ok","service":"membridge-control-plane"}`, ""},
		{"GET", "/health", 200, `{"status":"ok","service":"bloom-runtime"}`, bloom.CodeMembridgeInvalidResponse},
		{"GET", "/health", 200, `{}`, bloom.CodeMembridgeInvalidResponse},
		{"GET", "/health", 200, `[]`, bloom.CodeMembridgeInvalidResponse},
		{"GET", "/projects", 200, `[]`, ""},
		{"GET", "/projects", 200, `{"hello":"world"}`, bloom.CodeMembridgeInvalidResponse},
		{"GET", "/projects", 200, `null`, bloom.CodeMembridgeInvalidResponse},
		{"GET", "/projects/c/nodes", 200, `[1]`, bloom.CodeMembridgeInvalidResponse},
		{"GET", leadership, 200, `{"canonical_id":"c","preferred_primary":null}`, ""},
		{"GET", leadership, 200, `{"ok":true}`, bloom.CodeMembridgeInvalidResponse},
		{"POST", leadership + "/select", 200, selected, ""},
		{"POST", leadership + "/select", 200, `{"ok":true}`, bloom.CodeMembridgeInvalidResponse},
		{"GET", "/projects", 404, `{"detail":"no"}`, ""},
		{"GET", "/projects", 422, `{"detail":[{"loc":["body"],"msg":"m"}]}`, ""},
		{"GET", "/projects", 404, `<html>nginx</html>`, bloom.CodeMembridgeInvalidResponse},
		{"GET", "/projects", 404, `{"message":"no"}`, bloom.CodeMembridgeInvalidResponse},
		{"GET", "/projects", 302, ``, bloom.CodeMembridgeElsewhere},
		{"GET", "/projects", 500, `{"detail":"no"}`, bloom.CodeMembridgeFailed},
	} {
		client := dial(t, serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(c.status); io.WriteString(w, c.body) }))
		_, _, err := client.Do(t.Context(), c.method, c.path, nil)
		if code(err) != c.code || client.State().Connected != (c.code == "") {
			t.Errorf("%s %s, %d %s: %v, state %+v", c.method, c.path, c.status, c.body, err, client.State())
		}
	}
	// Health and the list of agents are only ever refused because of the key.
	client := dial(t, serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(422); io.WriteString(w, `{"detail":"no"}`) }))
	if _, err := client.Health(t.Context()); code(err) != bloom.CodeMembridgeInvalidResponse || !strings.Contains(err.Error(), "422") {
		t.Errorf("health: %v", err)
	}
	if _, err := client.Agents(t.Context()); code(err) != bloom.CodeMembridgeInvalidResponse || client.State().Connected {
		t.Errorf("agents: %v, state %+v", err, client.State())
	}
}

// faulty servers must end within the bounds, and leave no goroutine behind (which TestMain checks,
// too).
func TestFaultyServersAreBoundedAndLeaveNoGoroutine(t *testing.T) {
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
	faulty := map[string]string{
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
	for name, url := range faulty {
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
