package auth

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/audit"
	"github.com/bloom-runtime/bloom/internal/timing"
)

// signIn is the state of a sign-in, sealed in a cookie: the server stores nothing, so strangers
// cannot fill its memory.
type signIn struct {
	State    string `json:"state"`
	Nonce    string `json:"nonce"`
	Verifier string `json:"verifier"`
	Back     string `json:"back"`
	Until    int64  `json:"until"` // Unix milliseconds
}

// BeginSignIn returns the URL to redirect a browser to, and the cookie that it must return. back is
// the page to show after the sign-in.
func (a *Authenticator) BeginSignIn(ctx context.Context, back string, secure bool) (string, *http.Cookie, error) {
	if a.oidc == nil || a.seal == nil {
		return "", nil, errNoProvider
	}
	config, _, err := a.oidc.discover(ctx)
	if err != nil {
		return "", nil, err
	}
	began := signIn{State: rand.Text(), Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier(), Back: ownPath(back), Until: timing.Millis(a.clock.Now().Add(signInLife))}
	data, err := json.Marshal(began)
	if err != nil {
		return "", nil, err
	}
	sealed, err := a.seal.Seal(sealedSignIn, string(data))
	if err != nil {
		return "", nil, err
	}
	return config.AuthCodeURL(began.State, oidc.Nonce(began.Nonce), oauth2.S256ChallengeOption(began.Verifier)),
		waiting(sealed, secure, int(signInLife/time.Second)), nil
}

// waiting returns the cookie for the time at the provider. It is SameSite=Lax because the provider
// redirects the browser back.
func waiting(value string, secure bool, maxAge int) *http.Cookie {
	c := cookie(value, secure, maxAge) //nolint:gosec // Secure wherever the browser came over TLS
	c.Name, c.SameSite = signInCookie, http.SameSiteLaxMode
	if secure {
		c.Name = "__Host-" + signInCookie
	}
	return c
}

// ownPath returns back if it is a path of this server, and never a foreign URL.
func ownPath(back string) string {
	u, err := url.Parse(back)
	if err != nil || u.IsAbs() || u.Host != "" || !strings.HasPrefix(back, "/") || strings.ContainsAny(back, "\\\r\n\t") || strings.HasPrefix(back, "//") || len(back) > 1024 {
		return "/"
	}
	return back
}

// FinishSignIn completes a sign-in when the browser returns from the provider. It returns the page
// to show and the cookies to set: that of the session unless there is an error, and always the
// deletion of the one from BeginSignIn.
func (a *Authenticator) FinishSignIn(r *http.Request, from Visitor) (back string, cookies []*http.Cookie, err error) {
	if a.oidc == nil || a.seal == nil || a.store == nil {
		return "/", nil, errNoProvider
	}
	cookies = []*http.Cookie{waiting("", from.Secure, -1)}
	began, err := a.begun(r, from.Secure)
	if err != nil {
		return "/", cookies, err
	}
	q := r.URL.Query()
	if q.Get("error") != "" || q.Get("code") == "" {
		return began.Back, cookies, withCause(ErrSignInRefused, fmt.Errorf("the provider returned %q: %q", q.Get("error"), q.Get("error_description")))
	}
	who, err := a.oidc.redeem(r.Context(), q.Get("code"), began)
	if err != nil {
		return began.Back, cookies, err
	}
	t := ticket{Subject: oidcPrefix + who.subject, Until: timing.Millis(a.clock.Now().Add(SessionLife)), Issuer: a.oidc.Issuer, Client: a.oidc.ClientID, Groups: who.groups}
	ctx := audit.WithCaller(r.Context(), audit.Caller{KeyID: t.Subject, Address: from.Address})
	c, _, err := a.begin(ctx, bloom.BrowserSession{Name: who.name, Role: who.role}, t, from)
	if err != nil {
		return began.Back, cookies, err
	}
	return began.Back, append(cookies, c), nil
}

// begun returns the state that the browser kept.
func (a *Authenticator) begun(r *http.Request, secure bool) (began signIn, err error) {
	c, err := r.Cookie(waiting("", secure, 0).Name)
	if err != nil {
		return began, ErrSignInStale
	}
	opened, err := a.seal.Open(sealedSignIn, c.Value)
	if err != nil || json.Unmarshal([]byte(opened), &began) != nil || began.Until <= timing.Millis(a.clock.Now()) ||
		subtle.ConstantTimeCompare([]byte(began.State), []byte(r.URL.Query().Get("state"))) != 1 {
		return began, ErrSignInStale
	}
	return began, nil
}

func withCause(e *bloom.Error, cause error) *bloom.Error {
	with := *e
	with.Cause = cause
	return &with
}
