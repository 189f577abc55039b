package httpapi_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/auth"
	"github.com/bloom-runtime/bloom/internal/dispatch"
	"github.com/bloom-runtime/bloom/internal/guard"
	"github.com/bloom-runtime/bloom/internal/httpapi"
)

type sessionState struct {
	Name, Role, Auth, OIDC string
	Cookie                 bool
}

func cookieOf(t testing.TB, a answer) string {
	t.Helper()
	for _, c := range (&http.Response{Header: a.header}).Cookies() {
		if c.Value == "" {
			continue
		}
		if !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "/" {
			t.Fatalf("cookie %v can be read or sent elsewhere", c)
		}
		if strings.Contains(c.Value, adminKey) {
			t.Fatal("the cookie holds the key")
		}
		return c.Name + "=" + c.Value
	}
	t.Fatalf("no cookie in %v", a.header)
	return ""
}

func TestAKeyIsExchangedForASession(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	viewerKey := r.newKey(auth.RoleViewer).Key
	r.key = ""
	var s sessionState
	r.call(200, &s, "GET", "/session", "")
	if s != (sessionState{Auth: "keys"}) {
		t.Fatalf("a stranger is %+v", s)
	}
	r.fails(401, "unauthorized", "POST", "/session", `{"key":"not-a-key-0123456789"}`)
	r.fails(400, "invalid_request", "POST", "/session", `{}`)
	r.fails(403, "forbidden", "POST", "/session", `{"key":"`+workerKey+`"}`)

	cookie := cookieOf(t, r.call(200, &s, "POST", "/session", `{"key":"`+viewerKey+`"}`))
	if s != (sessionState{Name: "viewer", Role: "viewer", Auth: "keys", Cookie: true}) {
		t.Fatalf("signed in as %+v", s)
	}
	r.call(200, &s, "GET", "/session", "", "Cookie", cookie)
	if s.Name != "viewer" || !s.Cookie {
		t.Fatalf("the session is %+v", s)
	}
	r.call(200, nil, "GET", "/llm-tasks", "", "Cookie", cookie)
	// The session has the key's role, and the origin check applies.
	r.fails(403, "forbidden", "POST", "/llm-tasks", `{"context_id":"c","agent_slug":"a","prompt":"p"}`, "Cookie", cookie)
	admin := cookieOf(t, r.call(200, &s, "POST", "/session", `{"key":"`+adminKey+`"}`))
	r.fails(403, "cross_origin", "POST", "/llm-tasks", `{"context_id":"c","agent_slug":"a","prompt":"p"}`, "Cookie", admin, "Sec-Fetch-Site", "cross-site")
	r.call(201, nil, "POST", "/llm-tasks", `{"context_id":"c","agent_slug":"a","prompt":"p"}`, "Cookie", admin, "Sec-Fetch-Site", "same-origin")

	// It is renewed when used and expires otherwise.
	r.clock.by.Store(int64(2 * time.Hour))
	renewed := cookieOf(t, r.call(200, &s, "GET", "/session", "", "Cookie", cookie))
	r.clock.by.Store(int64(13 * time.Hour))
	r.fails(401, "unauthorized", "GET", "/llm-tasks", "", "Cookie", cookie)
	r.call(200, nil, "GET", "/llm-tasks", "", "Cookie", renewed)
	r.fails(401, "unauthorized", "GET", "/llm-tasks", "", "Cookie", strings.Replace(renewed, "v1:", "v1:A", 1))

	gone := r.call(200, nil, "DELETE", "/session", "", "Cookie", renewed)
	for _, c := range (&http.Response{Header: gone.header}).Cookies() {
		if c.Value != "" || c.MaxAge >= 0 {
			t.Fatalf("signing out leaves %v", c)
		}
	}
}

func TestASessionEndsWithItsKey(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	viewer := r.newKey(auth.RoleViewer)
	r.key = ""
	cookie := cookieOf(t, r.call(200, nil, "POST", "/session", `{"key":"`+viewer.Key+`"}`))
	r.call(200, nil, "GET", "/stats", "", "Cookie", cookie)
	r.call(200, nil, "DELETE", "/keys/"+viewer.ID, "", auth.HeaderKey, adminKey)
	r.fails(401, "unauthorized", "GET", "/stats", "", "Cookie", cookie)
}

func TestSigningInIsSlowed(t *testing.T) {
	t.Parallel()
	r := newFixture(t, withLimits(httpapi.DefaultLimits))
	r.key = ""
	for range 20 {
		r.fails(401, "unauthorized", "POST", "/session", `{"key":"not-a-key-0123456789"}`)
	}
	r.fails(429, "rate_limited", "POST", "/session", `{"key":"not-a-key-0123456789"}`)
	r.call(200, nil, "POST", "/session", `{"key":"`+adminKey+`"}`)
	for range httpapi.DefaultLimits.Address {
		r.do("GET", "/api/runtime/stats", "")
	}
	r.limited("address", "GET", "/api/runtime/stats")
	r.call(200, nil, "POST", "/session", `{"key":"`+adminKey+`"}`)
	for range 3*20 - 2 { // each is a row and an audit entry
		r.call(200, nil, "POST", "/session", `{"key":"`+adminKey+`"}`)
	}
	r.fails(429, "rate_limited", "POST", "/session", `{"key":"`+adminKey+`"}`)
}

func TestARevokedKeyDoesNotFinishWhatItHasBegun(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	key := r.newKey(bloom.RoleAdmin)
	send, body := net.Pipe()
	defer body.Close()
	req := r.request("POST", "/api/runtime/keys", "", auth.HeaderKey, key.Key)
	text := `{"name":"a","role":"admin"}`
	req.Body, req.ContentLength = send, int64(len(text))
	ended := make(chan int, 1)
	go func() {
		res, err := r.client.Do(req)
		if err != nil {
			t.Error(err)
			ended <- 0
			return
		}
		_ = res.Body.Close()
		ended <- res.StatusCode
	}()
	_, err := io.WriteString(body, text[:5])
	must(t, err)
	r.call(200, nil, "DELETE", "/keys/"+key.ID, "")
	revoked := time.Now()
	pace := time.NewTicker(500 * time.Millisecond)
	defer pace.Stop()
	for range pace.C { // its key is looked at every two seconds
		if time.Since(revoked) > 5*time.Second {
			break
		}
	}
	_, err = io.WriteString(body, text[5:])
	must(t, err)
	if status := <-ended; status != 401 {
		t.Errorf("the request got %d", status)
	}
}

func TestASignInDoesNotWaitForItsBody(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(r.url, "http://"))
	must(t, err)
	defer conn.Close()
	must(t, conn.SetDeadline(time.Now().Add(20*time.Second)))
	_, err = io.WriteString(conn, "POST /api/runtime/session HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{")
	must(t, err)
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "HTTP/1.1 400 ") {
		t.Errorf("%q, %v", line, err)
	}
}

func TestTheCookieOfATLSSessionIsTheHostsAlone(t *testing.T) {
	t.Parallel()
	for network, trusted := range map[string]bool{"127.0.0.0/8": true, "10.0.0.0/8": false} {
		r := newFixture(t, func(_ *dispatch.Config, a *auth.Config, h *httpapi.Config) {
			h.Proxies = guard.Proxies{netip.MustParsePrefix(network)}
			a.Proxies = h.Proxies
		})
		r.key = ""
		cookie := cookieOf(t, r.call(200, nil, "POST", "/session", `{"key":"`+adminKey+`"}`, "X-Forwarded-Proto", "https"))
		if strings.HasPrefix(cookie, "__Host-") != trusted {
			t.Fatalf("with %s as a proxy the cookie is %s", network, cookie)
		}
		r.call(200, nil, "GET", "/stats", "", "Cookie", cookie, "X-Forwarded-Proto", "https")
		if trusted {
			r.fails(401, "unauthorized", "GET", "/stats", "", "Cookie", strings.TrimPrefix(cookie, "__Host-"), "X-Forwarded-Proto", "https")
		}
	}
}

// TestASessionIsNotDeniedWhileTheStoreFails tells a caller whose session cannot be looked up
// neither that there is none nor that it was ended.
func TestASessionIsNotDeniedWhileTheStoreFails(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	cookie := cookieOf(t, r.call(200, nil, "POST", "/session", `{"key":"`+adminKey+`"}`))
	r.key = ""
	must(t, r.store.Close())
	r.fails(503, "unavailable", "DELETE", "/session", "", "Cookie", cookie)
	r.fails(503, "unavailable", "GET", "/session", "", "Cookie", cookie)
	var s sessionState
	r.call(200, &s, "GET", "/session", "")
	if s != (sessionState{Auth: "keys"}) {
		t.Errorf("a stranger is %+v", s)
	}
}
