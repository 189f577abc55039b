package app_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/app"
	"github.com/bloom-runtime/bloom/internal/config"
	"github.com/bloom-runtime/bloom/internal/oidctest"
	"github.com/bloom-runtime/bloom/internal/pgtest"
)

// twoReplicas starts two servers over one database with the same settings.
func twoReplicas(t *testing.T, change func(*config.Server)) (a, b *replicaOf) {
	t.Helper()
	database := config.Secret(pgtest.Start(t))
	begin := func() *replicaOf {
		cfg := serverConfig(t)
		cfg.DatabaseURL, cfg.RuntimeAPIKey, cfg.NoMembridge = database, key, true
		cfg.SecretKey = config.Secret(strings.Repeat("5a", 32))
		if change != nil {
			change(&cfg)
		}
		s, err := app.OpenServer(t.Context(), cfg, build())
		must(t, err)
		ctx, stop := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx, context.Background()) }()
		t.Cleanup(func() {
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
			must(t, s.Close())
		})
		return &replicaOf{t, s.URL()}
	}
	return begin(), begin()
}

// replicaOf is one of several servers, as clients see it.
type replicaOf struct {
	*testing.T
	url string
}

// ask sends a request with a header, "Name: value", and follows no redirect.
func (r *replicaOf) ask(method, path, body, header string) (*http.Response, string) {
	r.Helper()
	req, err := http.NewRequestWithContext(context.Background(), method, r.url+path, strings.NewReader(body))
	must(r.T, err)
	if name, value, given := strings.Cut(header, ": "); given {
		req.Header.Set(name, value)
	}
	req.Close = true
	res, err := http.DefaultTransport.RoundTrip(req)
	must(r.T, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	must(r.T, err)
	return res, string(text)
}

// wants is ask with the expected status; the response is decoded into v.
func (r *replicaOf) wants(status int, v any, method, path, body, header string) *http.Response {
	r.Helper()
	res, text := r.ask(method, path, body, header)
	if res.StatusCode != status {
		r.Fatalf("%s %s: %d %s, want %d", method, path, res.StatusCode, text, status)
	}
	if v != nil {
		must(r.T, json.Unmarshal([]byte(text), v))
	}
	return res
}

// sessionOf returns the cookie that a response sets, as a header.
func sessionOf(t *testing.T, res *http.Response) string {
	t.Helper()
	for _, c := range res.Cookies() {
		if strings.HasSuffix(c.Name, "bloom_session") && c.Value != "" {
			return "Cookie: " + c.Name + "=" + c.Value
		}
	}
	t.Fatalf("no session in %v", res.Header)
	return ""
}

const (
	asAdmin = "X-Runtime-API-Key: " + key
	// revokedWithin is how soon after a revocation every replica must refuse every request.
	revokedWithin = 5 * time.Second
)

// refusedSoon repeats a request until it is refused. No request that begins revokedWithin after the
// revocation may succeed.
func (r *replicaOf) refusedSoon(what, header string, revoked time.Time) {
	r.Helper()
	for {
		began := time.Now()
		res, text := r.ask("GET", "/api/runtime/stats", "", header)
		if res.StatusCode == http.StatusUnauthorized {
			r.Logf("%s: refused after %s", what, time.Since(revoked).Round(time.Millisecond))
			return
		}
		if res.StatusCode != http.StatusOK || began.Sub(revoked) > revokedWithin {
			r.Fatalf("%s: a request %s after the revocation: %d %s", what, began.Sub(revoked), res.StatusCode, text)
		}
	}
}

// TestARevocationHoldsOnAllReplicas revokes at one server what was just used at another: a key, a
// key's session, a single sign-on session. A stream ends, too.
func TestARevocationHoldsOnAllReplicas(t *testing.T) {
	t.Parallel()
	p := oidctest.Start(t)
	a, b := twoReplicas(t, func(c *config.Server) {
		c.OIDC = config.OIDC{OIDCIssuer: p.URL, OIDCClientID: oidctest.ClientID, OIDCClientSecret: config.Secret(p.Secret), OIDCClaim: "groups",
			OIDCRedirectURL: "https://bloom.example.org" + config.OIDCCallback, OIDCRole: []string{"viewer=staff"}}
	})
	create := func(name string) (k bloom.CreatedKey) {
		a.wants(201, &k, "POST", "/api/runtime/keys", `{"name":"`+name+`","role":"viewer"}`, asAdmin)
		return k
	}
	revoke := func(path string) time.Time {
		a.wants(200, nil, "DELETE", "/api/runtime/"+path, "", asAdmin)
		return time.Now()
	}

	plain := create("plain")
	shown := "X-Runtime-API-Key: " + plain.Key
	b.wants(200, nil, "GET", "/api/runtime/stats", "", shown)
	stream := b.stream(shown)
	b.refusedSoon("a key", shown, revoke("keys/"+plain.ID))
	select {
	case <-stream:
	case <-time.After(time.Minute):
		t.Error("the stream of the revoked key goes on")
	}

	browser := create("browser")
	cookie := sessionOf(t, b.wants(200, nil, "POST", "/api/runtime/session", `{"key":"`+browser.Key+`"}`, ""))
	for _, r := range []*replicaOf{a, b} {
		r.wants(200, nil, "GET", "/api/runtime/stats", "", cookie)
	}
	b.refusedSoon("the session of a key", cookie, revoke("keys/"+browser.ID))

	p.Claims = map[string]any{"email": "ann@example.org", "email_verified": true, "groups": []string{"staff"}}
	person := b.signIn()
	for _, r := range []*replicaOf{a, b} {
		r.wants(200, nil, "GET", "/api/runtime/stats", "", person)
	}
	var sessions []bloom.BrowserSession
	a.wants(200, &sessions, "GET", "/api/runtime/sessions", "", asAdmin)
	id := ""
	for _, s := range sessions {
		if s.Name == "ann@example.org" {
			id = s.ID
		}
	}
	b.refusedSoon("a person's session", person, revoke("sessions/"+id))
}

// stream reads changes; the channel is closed when the server ends it.
func (r *replicaOf) stream(header string) <-chan struct{} {
	r.Helper()
	req, err := http.NewRequestWithContext(r.Context(), "GET", r.url+"/api/runtime/events", nil)
	must(r.T, err)
	name, value, _ := strings.Cut(header, ": ")
	req.Header.Set(name, value)
	transport := &http.Transport{DisableKeepAlives: true}
	res, err := transport.RoundTrip(req)
	must(r.T, err)
	r.Cleanup(func() { res.Body.Close() })
	if res.StatusCode != 200 {
		r.Fatal(res.Status)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = io.Copy(io.Discard, res.Body)
	}()
	return ended
}

// signIn signs in at the provider and returns the session as a header.
func (r *replicaOf) signIn() string {
	r.Helper()
	begun := r.wants(303, nil, "GET", "/api/runtime/session/oidc", "", "")
	kept := begun.Cookies()[0]
	res, err := http.DefaultTransport.RoundTrip(&http.Request{Method: "GET", URL: mustURL(r.T, begun.Header.Get("Location")), Header: http.Header{}})
	must(r.T, err)
	must(r.T, res.Body.Close())
	back := mustURL(r.T, res.Header.Get("Location"))
	return sessionOf(r.T, r.wants(303, nil, "GET", back.RequestURI(), "", "Cookie: "+kept.Name+"="+kept.Value))
}

func mustURL(t *testing.T, text string) *url.URL {
	t.Helper()
	u, err := url.Parse(text)
	must(t, err)
	return u
}

// TestTheLimitsOfReplicasAddUp: n replicas allow n times a limit, and no more.
func TestTheLimitsOfReplicasAddUp(t *testing.T) {
	t.Parallel()
	const limit = 12
	a, b := twoReplicas(t, func(c *config.Server) { c.RateAddress, c.RateKey = limit, limit })
	for what, header := range map[string]string{"a key": asAdmin, "an address": ""} {
		began := time.Now()
		let := 0
		for range 4 * limit {
			for _, r := range []*replicaOf{a, b} {
				if res, _ := r.ask("GET", "/api/runtime/stats", "", header); res.StatusCode != http.StatusTooManyRequests {
					let++
				}
			}
		}
		grown := 2 * (1 + int(time.Since(began).Minutes()*limit))
		if let < 2*limit || let > 2*limit+grown {
			t.Errorf("%s: two replicas let %d requests through, each with a limit of %d", what, let, limit)
		}
	}
}
