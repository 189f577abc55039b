package httpapi_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/auth"
	"github.com/bloom-runtime/bloom/internal/dispatch"
	"github.com/bloom-runtime/bloom/internal/httpapi"
	"github.com/bloom-runtime/bloom/internal/oidctest"
)

// oidcFixture is a server with p as its sign-in provider.
func oidcFixture(p *oidctest.Provider) *fixture {
	r := newFixture(p.TB, func(_ *dispatch.Config, a *auth.Config, _ *httpapi.Config) {
		a.OIDC = &auth.OIDC{Issuer: p.URL, ClientID: "bloom", ClientSecret: p.Secret, RedirectURL: "https://bloom.example.org/api/runtime/session/oidc/callback",
			Scopes: []string{"email"}, Claim: "realm.groups", Roles: []auth.RoleRule{{Role: auth.RoleViewer, Value: "staff"}, {Role: auth.RoleAdmin, Value: "operators"}}}
	})
	r.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	r.key = ""
	return r
}

// signIn signs in at the provider and returns the final redirect and the session's cookie.
func signIn(p *oidctest.Provider, r *fixture) (location, cookie string) {
	p.Helper()
	a := r.do("GET", "/api/runtime/session/oidc?to=/tasks/7%3Fa%3D1", "")
	if a.status != http.StatusSeeOther {
		p.Fatalf("begin: %d %s", a.status, a.body)
	}
	kept := (&http.Response{Header: a.header}).Cookies()
	if len(kept) != 1 || !kept[0].HttpOnly || kept[0].SameSite != http.SameSiteLaxMode {
		p.Fatalf("the browser keeps %v", kept)
	}
	res, err := r.client.Get(a.header.Get("Location"))
	must(p, err)
	must(p, res.Body.Close())
	back, err := url.Parse(res.Header.Get("Location"))
	must(p, err)
	a = r.do("GET", back.Path+"?"+back.RawQuery, "", "Cookie", kept[0].Name+"="+kept[0].Value)
	if a.status != http.StatusSeeOther {
		p.Fatalf("finish: %d %s", a.status, a.body)
	}
	for _, c := range (&http.Response{Header: a.header}).Cookies() {
		if c.Name == "bloom_session" {
			cookie = c.Name + "=" + c.Value
		}
	}
	return a.header.Get("Location"), cookie
}

func TestPeopleSignInAtAProvider(t *testing.T) {
	t.Parallel()
	p := oidctest.Start(t)
	r := oidcFixture(p)
	var s sessionState
	r.call(200, &s, "GET", "/session", "")
	if s.OIDC != strings.TrimPrefix(p.URL, "http://") || s.Auth != "keys" {
		t.Fatalf("a stranger sees %+v", s)
	}
	p.Claims = map[string]any{"email": "ann@example.org", "email_verified": true, "realm": map[string]any{"groups": []string{"staff", "operators"}}}
	location, cookie := signIn(p, r)
	if location != "/tasks/7?a=1" || cookie == "" {
		t.Fatalf("leads to %s with %q", location, cookie)
	}
	r.call(200, &s, "GET", "/session", "", "Cookie", cookie)
	if s.Name != "ann@example.org" || s.Role != "admin" || !s.Cookie {
		t.Fatalf("signed in as %+v", s)
	}
	var task bloom.Task
	r.call(201, &task, "POST", "/llm-tasks", `{"context_id":"c","agent_slug":"a","prompt":"p"}`, "Cookie", cookie)
	var audit []bloom.Audit
	r.call(200, &audit, "GET", "/audit?entity_id="+task.ID, "", "Cookie", cookie)
	if len(audit) != 1 || audit[0].Actor != "ann@example.org" || audit[0].KeyID != "oidc:u-17" {
		t.Fatalf("audit: %+v", audit)
	}
	// It ends even if it is used, so that users who have left lose access the next day.
	for _, after := range []time.Duration{5 * time.Hour, 10 * time.Hour} {
		r.clock.by.Store(int64(after))
		cookie = cookieOf(t, r.call(200, &s, "GET", "/session", "", "Cookie", cookie))
	}
	r.clock.by.Store(int64(12*time.Hour + time.Second))
	r.fails(401, "unauthorized", "GET", "/llm-tasks", "", "Cookie", cookie)
}

func TestSignInsAtAProviderThatAreRefused(t *testing.T) {
	t.Parallel()
	staff := map[string]any{"realm": map[string]any{"groups": []any{"staff"}}}
	with := func(k string, v any) map[string]any { return map[string]any{"realm": staff["realm"], k: v} }
	for name, test := range map[string]struct {
		claims map[string]any
		change func(url.Values)
		broken bool
		late   bool
		code   string
	}{
		"no group":           {claims: map[string]any{}, code: "no_role"},
		"another group":      {claims: map[string]any{"realm": map[string]any{"groups": []any{"guests", 7}}}, code: "no_role"},
		"refused there":      {claims: staff, change: func(q url.Values) { q.Del("code"); q.Set("error", "access_denied") }, code: "sign_in_refused"},
		"too late":           {claims: staff, late: true, code: "sign_in_stale"},
		"another state":      {claims: staff, change: func(q url.Values) { q.Set("state", "x") }, code: "sign_in_stale"},
		"another code":       {claims: staff, change: func(q url.Values) { q.Set("code", "x") }, code: "sign_in_refused"},
		"another audience":   {claims: with("aud", "somebody-else"), code: "sign_in_refused"},
		"another issuer":     {claims: with("iss", "https://evil.example.org"), code: "sign_in_refused"},
		"another nonce":      {claims: with("nonce", "x"), code: "sign_in_refused"},
		"an expired token":   {claims: with("exp", 1), code: "sign_in_refused"},
		"a provider's fault": {claims: staff, broken: true, code: "sign_in_unavailable"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := oidctest.Start(t)
			p.Claims, p.Change, p.Broken = test.claims, test.change, test.broken
			r := oidcFixture(p)
			if test.late {
				p.Change = func(url.Values) { r.clock.by.Store(int64(time.Hour)) }
			}
			location, cookie := signIn(p, r)
			u, err := url.Parse(location)
			must(t, err)
			if u.Path != "/sign-in" || u.Query().Get("error") != test.code || cookie != "" {
				t.Fatalf("leads to %s with %q", location, cookie)
			}
		})
	}
}

func TestASignInIsFinishedWhereItWasBegun(t *testing.T) {
	t.Parallel()
	p := oidctest.Start(t)
	r := oidcFixture(p)
	p.Claims = map[string]any{"realm": map[string]any{"groups": "staff"}}
	a := r.do("GET", "/api/runtime/session/oidc", "")
	res, err := r.client.Get(a.header.Get("Location"))
	must(t, err)
	must(t, res.Body.Close())
	_, query, _ := strings.Cut(res.Header.Get("Location"), "?")
	a = r.do("GET", "/api/runtime/session/oidc/callback?"+query, "") // another browser, lured there
	if !strings.Contains(a.header.Get("Location"), "error=sign_in_stale") || len((&http.Response{Header: a.header}).Cookies()) != 1 {
		t.Fatalf("leads to %s with %v", a.header.Get("Location"), a.header["Set-Cookie"])
	}
}

func TestASignInLeadsToNoOtherSite(t *testing.T) {
	t.Parallel()
	p := oidctest.Start(t)
	p.Claims = map[string]any{"realm": map[string]any{"groups": "staff"}}
	for _, to := range []string{"https://evil.example.org/", "//evil.example.org", `/\evil.example.org`, "evil", "/%0d%0aSet-Cookie:x"} {
		r := oidcFixture(p)
		a := r.do("GET", "/api/runtime/session/oidc?to="+url.QueryEscape(to), "")
		kept := (&http.Response{Header: a.header}).Cookies()[0]
		res, err := r.client.Get(a.header.Get("Location"))
		must(t, err)
		must(t, res.Body.Close())
		_, query, _ := strings.Cut(res.Header.Get("Location"), "?")
		a = r.do("GET", "/api/runtime/session/oidc/callback?"+query, "", "Cookie", kept.Name+"="+kept.Value)
		if got := a.header.Get("Location"); a.status != http.StatusSeeOther || got != "/" && got != to || strings.Contains(got, "//") || strings.ContainsAny(got, "\\\r\n") {
			t.Errorf("to=%s leads to %q", to, got)
		}
	}
}

func TestWithoutAProviderThereIsNoSignInAtOne(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	r.fails(404, "not_found", "GET", "/session/oidc", "")
	r.fails(404, "not_found", "GET", "/session/oidc/callback?code=x&state=y", "")
}

// A provider that does not respond delays nobody: a sign-in ends with its request, and concurrent
// ones share one request to the provider.
func TestAProviderThatHangsDelaysNobody(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	first, release := make(chan struct{}, 64), make(chan struct{})
	hanging := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		asked.Add(1)
		first <- struct{}{}
		<-release
	}))
	t.Cleanup(hanging.Close)
	t.Cleanup(sync.OnceFunc(func() { close(release) }))
	r := newFixture(t, func(_ *dispatch.Config, a *auth.Config, _ *httpapi.Config) {
		a.OIDC = &auth.OIDC{Issuer: hanging.URL, ClientID: "bloom", RedirectURL: "https://bloom.example.org/back", Claim: "groups"}
	})
	begin := func(ctx context.Context) chan int {
		ended := make(chan int, 1)
		go func() {
			w := httptest.NewRecorder()
			r.api.ServeHTTP(w, httptest.NewRequestWithContext(ctx, "GET", "/api/runtime/session/oidc", nil))
			ended <- w.Code
		}()
		return ended
	}
	waiting, leave := context.WithCancel(t.Context())
	one := begin(waiting)
	<-first
	for range 5 { // they arrive during the first one's request to the provider, and leave before it
		ctx, done := context.WithCancel(t.Context())
		ended := begin(ctx)
		done()
		select {
		case <-ended:
		case <-time.After(8 * time.Second): // the request to the provider times out after 10
			t.Fatal("a sign-in outlasts its request")
		}
	}
	select {
	case <-one: // without leaving: the provider times out
	case <-time.After(time.Minute):
		t.Error("a provider that hangs is waited for without end")
	}
	leave()
	if asked.Load() != 1 {
		t.Errorf("the provider was asked %d times", asked.Load())
	}
}
