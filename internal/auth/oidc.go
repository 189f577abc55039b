package auth

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
	"golang.org/x/sync/singleflight"

	"github.com/bloom-runtime/bloom"
)

// OIDC is how people sign in at a provider (OpenID Connect, authorization code flow
// with PKCE).
type OIDC struct {
	Issuer, ClientID, ClientSecret string
	RedirectURL                    string // of CallbackPath on this server, as people reach it
	Scopes                         []string
	Claim                          string // that holds roles or groups; dots lead into objects
	Roles                          []RoleRule
}

// RoleRule gives a role to those whose claim holds the value; "*" is anybody.
type RoleRule struct {
	Role  Role
	Value string
}

const (
	// signInLife is how long somebody may take at the provider.
	signInLife = 10 * time.Minute
	// providerTimeout bounds one request to the provider.
	providerTimeout = 10 * time.Second
	signInCookie    = "bloom_sign_in"
	sealedSignIn    = "sign-in"
	// oidcPrefix begins the id of a person of the provider, in the audit and elsewhere.
	oidcPrefix = "oidc:"
)

// Reasons why somebody who was at the provider is not signed in.
var (
	ErrSignInStale = &bloom.Error{Kind: bloom.KindInvalid, Code: "sign_in_stale",
		Message: "This sign-in was not begun in this browser, or more than 10 minutes ago; begin again"}
	ErrSignInRefused = &bloom.Error{Kind: bloom.KindForbidden, Code: "sign_in_refused",
		Message: "The sign-in provider did not let you in"}
	ErrNoRole = &bloom.Error{Kind: bloom.KindForbidden, Code: "no_role",
		Message: "You are signed in at the provider, but none of your groups has a role here; ask the operator"}
	ErrProviderAway = &bloom.Error{Kind: bloom.KindUnavailable, Code: "sign_in_unavailable",
		Message: "The sign-in provider does not answer as it should; try again later, or sign in with a key"}
	errNoProvider = bloom.NotFound("Sign-in provider")
)

// provider is OIDC at work. It is safe for concurrent use.
type provider struct {
	OIDC

	client *http.Client
	found  atomic.Pointer[oidc.Provider] // nil until its description was read
	search singleflight.Group
}

func newProvider(c OIDC) *provider {
	return &provider{OIDC: c, client: &http.Client{Timeout: providerTimeout}}
}

// signIn is what the browser keeps, sealed, while somebody is at the provider: the
// server keeps nothing, so that strangers can fill nothing.
type signIn struct {
	State    string `json:"state"`
	Nonce    string `json:"nonce"`
	Verifier string `json:"verifier"`
	Back     string `json:"back"`
	Until    int64  `json:"until"` // Unix milliseconds
}

// Provider is the host of the sign-in provider; "" when there is none.
func (a *Authenticator) Provider() string {
	if a.oidc == nil {
		return ""
	}
	u, err := url.Parse(a.oidc.Issuer)
	if err != nil {
		return a.oidc.Issuer
	}
	return u.Host
}

// BeginSignIn is where to send a browser to sign in, and the cookie that it has to
// bring back. back is the page that it is to see afterwards.
func (a *Authenticator) BeginSignIn(ctx context.Context, back string, secure bool) (string, *http.Cookie, error) {
	if a.oidc == nil || a.seal == nil {
		return "", nil, errNoProvider
	}
	config, _, err := a.oidc.discover(ctx)
	if err != nil {
		return "", nil, err
	}
	began := signIn{State: rand.Text(), Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier(), Back: ownPath(back), Until: bloom.Millis(a.clock.Now().Add(signInLife))}
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

// waiting is the cookie for the time at the provider. It is SameSite=Lax, because the
// provider's page sends the browser back.
func waiting(value string, secure bool, maxAge int) *http.Cookie {
	c := cookie(value, secure, maxAge) //nolint:gosec // Secure wherever the browser came over TLS
	c.Name, c.SameSite = signInCookie, http.SameSiteLaxMode
	if secure {
		c.Name = "__Host-" + signInCookie
	}
	return c
}

// ownPath is a page of ours, and never of somebody else's.
func ownPath(back string) string {
	u, err := url.Parse(back)
	if err != nil || u.IsAbs() || u.Host != "" || !strings.HasPrefix(back, "/") || strings.ContainsAny(back, "\\\r\n\t") || strings.HasPrefix(back, "//") || len(back) > 1024 {
		return "/"
	}
	return back
}

// FinishSignIn takes the browser back from the provider. It is the page to see next
// and the cookies to set: those of the session, when there is no error, and the end of
// the one from BeginSignIn always.
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
		return began.Back, cookies, withCause(ErrSignInRefused, fmt.Errorf("the provider said %q: %q", q.Get("error"), q.Get("error_description")))
	}
	who, err := a.oidc.redeem(r.Context(), q.Get("code"), began)
	if err != nil {
		return began.Back, cookies, err
	}
	t := ticket{Subject: oidcPrefix + who.subject, Until: bloom.Millis(a.clock.Now().Add(SessionLife)), Issuer: a.oidc.Issuer, Client: a.oidc.ClientID, Groups: who.groups}
	ctx := bloom.WithCaller(r.Context(), bloom.Caller{KeyID: t.Subject, Address: from.Address})
	c, _, err := a.begin(ctx, bloom.BrowserSession{Name: who.name, Role: who.role}, t, from)
	if err != nil {
		return began.Back, cookies, err
	}
	return began.Back, append(cookies, c), nil
}

// begun is what the browser kept.
func (a *Authenticator) begun(r *http.Request, secure bool) (began signIn, err error) {
	c, err := r.Cookie(waiting("", secure, 0).Name)
	if err != nil {
		return began, ErrSignInStale
	}
	opened, err := a.seal.Open(sealedSignIn, c.Value)
	if err != nil || json.Unmarshal([]byte(opened), &began) != nil || began.Until <= bloom.Millis(a.clock.Now()) ||
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

// discover reads the provider's description, once it can be had. Callers that need it at
// once share one request; each waits no longer than its own request lasts.
func (p *provider) discover(ctx context.Context) (*oauth2.Config, *oidc.Provider, error) {
	found := p.found.Load()
	if found == nil {
		read := p.search.DoChan("", func() (any, error) {
			// The keys are fetched under this context later, so it must not end with the request.
			found, err := oidc.NewProvider(oidc.ClientContext(context.WithoutCancel(ctx), p.client), p.Issuer)
			if err == nil {
				p.found.Store(found)
			}
			return found, err
		})
		select {
		case <-ctx.Done():
			return nil, nil, withCause(ErrProviderAway, context.Cause(ctx))
		case r := <-read:
			if r.Err != nil {
				return nil, nil, withCause(ErrProviderAway, r.Err)
			}
			found = p.found.Load()
		}
	}
	return &oauth2.Config{ClientID: p.ClientID, ClientSecret: p.ClientSecret, Endpoint: found.Endpoint(), RedirectURL: p.RedirectURL,
		Scopes: append([]string{oidc.ScopeOpenID}, p.Scopes...)}, found, nil
}

// person is who signed in at the provider.
type person struct {
	subject, name string
	role          Role
	groups        []string // those that have a role here
}

// redeem exchanges the code for a token that says who somebody is.
func (p *provider) redeem(ctx context.Context, code string, began signIn) (who person, err error) {
	config, found, err := p.discover(ctx)
	if err != nil {
		return who, err
	}
	ctx = oidc.ClientContext(ctx, p.client)
	token, err := config.Exchange(ctx, code, oauth2.VerifierOption(began.Verifier))
	if err != nil {
		if refusal := (*oauth2.RetrieveError)(nil); errors.As(err, &refusal) && refusal.Response.StatusCode < http.StatusInternalServerError {
			return who, withCause(ErrSignInRefused, err)
		}
		return who, withCause(ErrProviderAway, err)
	}
	raw, ok := token.Extra("id_token").(string)
	if !ok {
		return who, withCause(ErrProviderAway, errors.New("its answer has no id_token"))
	}
	id, err := found.Verifier(&oidc.Config{ClientID: p.ClientID}).Verify(ctx, raw)
	if err != nil {
		return who, withCause(ErrSignInRefused, err)
	}
	if subtle.ConstantTimeCompare([]byte(id.Nonce), []byte(began.Nonce)) != 1 {
		return who, withCause(ErrSignInRefused, errors.New("the token was made for another sign-in"))
	}
	var claims map[string]any
	if err := id.Claims(&claims); err != nil {
		return who, withCause(ErrSignInRefused, err)
	}
	groups := p.known(valuesAt(claims, p.Claim))
	who = person{subject: cut(bloom.CleanText(id.Subject), bloom.MaxKeyName), name: nameOf(claims, id.Subject), role: p.role(groups), groups: groups}
	if who.role == "" {
		return who, withCause(ErrNoRole, fmt.Errorf("%s has no value of the claim %s that has a role", who.name, p.Claim))
	}
	return who, nil
}

// nameOf is what people call somebody.
func nameOf(claims map[string]any, subject string) string {
	name := subject
	if s, _ := claims["preferred_username"].(string); s != "" {
		name = s
	}
	if s, _ := claims["email"].(string); s != "" && claims["email_verified"] != false {
		name = s
	}
	return cut(bloom.CleanText(name), bloom.MaxKeyName)
}

// known are the groups that a rule names.
func (p *provider) known(groups []string) []string {
	return slices.DeleteFunc(groups, func(g string) bool {
		return !slices.ContainsFunc(p.Roles, func(r RoleRule) bool { return r.Value == g })
	})
}

// roleOf is the role of somebody who signed in; none when that was at another provider.
func (p *provider) roleOf(t ticket) Role {
	if p == nil || t.Issuer != p.Issuer || t.Client != p.ClientID {
		return ""
	}
	return p.role(t.Groups)
}

// role is the first of Roles, which begin with the most powerful, that a rule gives.
func (p *provider) role(groups []string) Role {
	for _, role := range Roles {
		for _, rule := range p.Roles {
			if rule.Role == role && (rule.Value == "*" || slices.Contains(groups, rule.Value)) {
				return role
			}
		}
	}
	return ""
}

// valuesAt are the texts of a claim: one, or those of a list. The name is taken
// whole first, since some providers use addresses as names.
func valuesAt(claims map[string]any, name string) []string {
	at, there := claims[name]
	if !there {
		var within any = claims
		for part := range strings.SplitSeq(name, ".") {
			object, _ := within.(map[string]any)
			within = object[part]
		}
		at = within
	}
	switch at := at.(type) {
	case string:
		return []string{at}
	case []any:
		values := []string{}
		for _, v := range at {
			if s, ok := v.(string); ok {
				values = append(values, s)
			}
		}
		return values
	}
	return nil
}
