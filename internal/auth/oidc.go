package auth

import (
	"context"
	"crypto/subtle"
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
	"github.com/bloom-runtime/bloom/internal/storable"
)

// OIDC configures sign-in at a provider (OpenID Connect, authorization code flow with PKCE).
type OIDC struct {
	Issuer, ClientID, ClientSecret string
	RedirectURL                    string // public URL of CallbackPath on this server
	Scopes                         []string
	Claim                          string // with roles or groups; dots select nested members
	Roles                          []RoleRule
}

// RoleRule assigns a role to users whose claim has the value; "*" matches every user.
type RoleRule struct {
	Role  Role
	Value string
}

const (
	// signInLife is how long a sign-in at the provider may take.
	signInLife = 10 * time.Minute
	// providerTimeout bounds one request to the provider.
	providerTimeout = 10 * time.Second
	signInCookie    = "bloom_sign_in"
	sealedSignIn    = "sign-in"
	// oidcPrefix is the prefix of the ids of the provider's users, in the audit and elsewhere.
	oidcPrefix = "oidc:"
)

// Reasons why a user is not signed in after authenticating at the provider.
var (
	ErrSignInStale = &bloom.Error{Kind: bloom.KindInvalid, Code: "sign_in_stale",
		Message: "This sign-in was not started in this browser, or more than 10 minutes ago; start again"}
	ErrSignInRefused = &bloom.Error{Kind: bloom.KindForbidden, Code: "sign_in_refused",
		Message: "The sign-in provider refused the sign-in"}
	ErrNoRole = &bloom.Error{Kind: bloom.KindForbidden, Code: "no_role",
		Message: "You are signed in at the provider, but none of your groups has a role here; ask the operator"}
	ErrProviderAway = &bloom.Error{Kind: bloom.KindUnavailable, Code: "sign_in_unavailable",
		Message: "The sign-in provider does not respond correctly; try again later, or sign in with a key"}
	errNoProvider = bloom.NotFound("Sign-in provider")
)

// provider is a client of the sign-in provider. It is safe for concurrent use.
type provider struct {
	OIDC

	client *http.Client
	found  atomic.Pointer[oidc.Provider] // nil until its metadata was read
	search singleflight.Group
}

func newProvider(c OIDC) *provider {
	return &provider{OIDC: c, client: &http.Client{Timeout: providerTimeout}}
}

// Provider returns the host of the sign-in provider; "" without one.
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

// discover reads the provider's metadata when it is first available. Concurrent callers share one
// request; each waits no longer than its own request.
func (p *provider) discover(ctx context.Context) (*oauth2.Config, *oidc.Provider, error) {
	found := p.found.Load()
	if found == nil {
		read := p.search.DoChan("", func() (any, error) {
			// The keys are fetched under this context later, so it must outlive the request.
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

// person is a user who signed in at the provider.
type person struct {
	subject, name string
	role          Role
	groups        []string // those that have a role here
}

// redeem exchanges the code for a token that identifies the user.
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
		return who, withCause(ErrProviderAway, errors.New("its response has no id_token"))
	}
	id, err := found.Verifier(&oidc.Config{ClientID: p.ClientID}).Verify(ctx, raw)
	if err != nil {
		return who, withCause(ErrSignInRefused, err)
	}
	if subtle.ConstantTimeCompare([]byte(id.Nonce), []byte(began.Nonce)) != 1 {
		return who, withCause(ErrSignInRefused, errors.New("the token is for another sign-in"))
	}
	var claims map[string]any
	if err := id.Claims(&claims); err != nil {
		return who, withCause(ErrSignInRefused, err)
	}
	groups := p.known(valuesAt(claims, p.Claim))
	who = person{subject: storable.Cut(storable.Text(id.Subject), MaxKeyName), name: nameOf(claims, id.Subject), role: p.role(groups), groups: groups}
	if who.role == "" {
		return who, withCause(ErrNoRole, fmt.Errorf("%s has no value of the claim %s that has a role", who.name, p.Claim))
	}
	return who, nil
}

// nameOf returns the display name of a user.
func nameOf(claims map[string]any, subject string) string {
	name := subject
	if s, _ := claims["preferred_username"].(string); s != "" {
		name = s
	}
	if s, _ := claims["email"].(string); s != "" && (claims["email_verified"] == true || claims["email_verified"] == "true") { // some providers send a text
		name = s
	}
	return storable.Cut(storable.Text(name), MaxKeyName)
}

// known returns the groups that a rule names.
func (p *provider) known(groups []string) []string {
	return slices.DeleteFunc(groups, func(g string) bool {
		return !slices.ContainsFunc(p.Roles, func(r RoleRule) bool { return r.Value == g })
	})
}

// roleOf returns the role of a signed-in user; none after a sign-in at another provider.
func (p *provider) roleOf(t ticket) Role {
	if p == nil || t.Issuer != p.Issuer || t.Client != p.ClientID {
		return ""
	}
	return p.role(t.Groups)
}

// role returns the first of Roles, which start with the most powerful, that a rule assigns.
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

// valuesAt returns the strings of a claim: a single one, or those of a list. It tries the whole
// name first, since some providers use URLs as names.
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
