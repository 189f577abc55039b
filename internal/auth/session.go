package auth

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/storable"
	"github.com/bloom-runtime/bloom/internal/store/contract"
	"github.com/bloom-runtime/bloom/internal/timing"
)

const (
	// SessionLife is how long a session lasts unless it is renewed.
	SessionLife = 12 * time.Hour
	// sessionRenewal is the age at which a cookie in use is renewed.
	sessionRenewal = time.Hour
	// turnGrace is how long the previous cookie is still accepted after a renewal, for requests in
	// transit.
	turnGrace = time.Minute

	// SessionCookie is the cookie's name without TLS.
	SessionCookie = "bloom_session"
	// secureCookie is its name under TLS: browsers accept it only from this host.
	secureCookie = "__Host-" + SessionCookie
	// sealedAs keeps other encrypted secrets from being accepted as a session.
	sealedAs = "session"
)

// ticket is the encrypted content of a session's cookie. The digest of the key is here and not in
// the database; the key is looked up for each request, so that a session ends with its key.
type ticket struct {
	ID     string `json:"id"`
	Turn   int64  `json:"turn"`
	Digest []byte `json:"digest,omitempty"` // absent for a session of a sign-in provider
	// For a session of a sign-in provider: the user, and when the session ends even if it is used
	// (Unix milliseconds), so that users who can no longer sign in there lose access here.
	Subject string `json:"subject,omitempty"`
	Until   int64  `json:"until,omitempty"`
	// The role is derived from these for each request, so that changed rules, or another provider,
	// take effect immediately.
	Issuer string   `json:"issuer,omitempty"`
	Client string   `json:"client,omitempty"`
	Groups []string `json:"groups,omitempty"` // those with a role
}

// Visitor is the browser that signs in.
type Visitor struct {
	Address, Agent string
	Secure         bool // connected over TLS
}

var (
	errNoSessions = &bloom.Error{Kind: bloom.KindConflict, Code: "sign_in_not_needed",
		Message: "This server requires no key, so there is nothing to sign in to"}
	errWorkerSession = &bloom.Error{Kind: bloom.KindForbidden, Code: bloom.CodeForbidden,
		Message: "A worker key cannot sign in; use another key"}
	errNoSession = &bloom.Error{Kind: bloom.KindUnauthorized, Code: bloom.CodeUnauthorized,
		Message: "This session has ended; sign in again"}
)

// SignIn exchanges a key for a session cookie.
func (a *Authenticator) SignIn(ctx context.Context, key string, from Visitor) (*http.Cookie, Principal, error) {
	if keyed, err := a.keyed(ctx); err != nil {
		return nil, Principal{}, err
	} else if a.mode == ModeInsecure || a.mode == ModeDevelopment && !keyed || a.seal == nil || a.store == nil {
		return nil, Principal{}, errNoSessions
	}
	caller, err := a.byKey(ctx, key, from.Address)
	if err != nil {
		return nil, Principal{}, err
	}
	if caller.Role == RoleWorker {
		return nil, Principal{}, errWorkerSession
	}
	sum := sha256.Sum256([]byte(key))
	cookie, id, err := a.begin(ctx, bloom.BrowserSession{Name: caller.Name, Role: caller.Role, KeyID: &caller.ID}, ticket{Digest: sum[:]}, from)
	caller.Session = id
	return cookie, caller, err
}

// begin stores a new session and returns its cookie.
func (a *Authenticator) begin(ctx context.Context, s bloom.BrowserSession, t ticket, from Visitor) (*http.Cookie, string, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return nil, "", err
	}
	s.ID, s.Address, s.Agent = id.String(), from.Address, storable.Cut(storable.Text(from.Agent), 256)
	x, err := a.store.CreateSession(ctx, s, SessionLife, s.Name)
	if err != nil {
		return nil, "", err
	}
	t.ID, t.Turn = x.ID, x.Turn
	cookie, err := a.issue(t, from.Secure)
	return cookie, x.ID, err
}

// Renew returns a renewed cookie for r's session if it is old enough; nil otherwise, or without a
// session.
func (a *Authenticator) Renew(r *http.Request, secure bool) (*http.Cookie, error) {
	t, x, err := a.session(r, false)
	if err != nil {
		return nil, nil // no session to renew
	}
	if t.Turn == x.Turn {
		if a.clock.Now().Sub(time.UnixMilli(x.TurnedAt)) < sessionRenewal {
			return nil, nil
		}
		if x, err = a.store.RenewSession(r.Context(), t.ID, t.Turn, SessionLife); err != nil {
			return nil, err
		}
		a.sessions.clear()
	}
	t.Turn = x.Turn
	return a.issue(t, secure)
}

// SignOut ends the caller's session, if any, and returns the cookies that make the browser forget
// it.
func (a *Authenticator) SignOut(ctx context.Context, caller Principal) ([]*http.Cookie, error) {
	if caller.Session != "" {
		if err := a.EndSession(ctx, caller.Session, caller); err != nil && bloom.KindOf(err) != bloom.KindNotFound {
			return nil, err
		}
	}
	return []*http.Cookie{cookie("", false, -1), cookie("", true, -1)}, nil
}

// EndSession ends a session by its id.
func (a *Authenticator) EndSession(ctx context.Context, id string, by Principal) error {
	if a.store == nil || uuid.Validate(id) != nil {
		return bloom.NotFound("Session")
	}
	err := a.store.EndSession(ctx, id, by.Name)
	a.forget()
	return err
}

// Sessions lists sessions, newest first.
func (a *Authenticator) Sessions(ctx context.Context, p bloom.Page) ([]bloom.BrowserSession, bloom.Cursor, error) {
	if a.store == nil {
		return nil, bloom.Cursor{}, errNoStore
	}
	return a.store.Sessions(ctx, p)
}

func (a *Authenticator) issue(t ticket, secure bool) (*http.Cookie, error) {
	data, err := json.Marshal(t)
	if err != nil {
		return nil, err
	}
	sealed, err := a.seal.Seal(sealedAs, string(data))
	if err != nil {
		return nil, err
	}
	return cookie(sealed, secure, int(SessionLife/time.Second)), nil
}

func cookie(value string, secure bool, maxAge int) *http.Cookie {
	c := &http.Cookie{Name: SessionCookie, Value: value, Path: "/", MaxAge: maxAge, HttpOnly: true, Secure: secure, SameSite: http.SameSiteStrictMode} //nolint:gosec // Secure wherever the browser came over TLS
	if secure {
		c.Name = secureCookie
	}
	return c
}

// ticketOf returns the ticket in r's cookie, if it is valid.
func (a *Authenticator) ticketOf(r *http.Request) (t ticket, ok bool) {
	if a.seal == nil || a.store == nil {
		return t, false
	}
	name := SessionCookie
	if a.proxies.OverTLS(r) {
		name = secureCookie // anyone on the way could have set the other one
	}
	c, err := r.Cookie(name)
	if err != nil {
		return t, false
	}
	opened, err := a.seal.Open(sealedAs, c.Value)
	return t, err == nil && json.Unmarshal([]byte(opened), &t) == nil && uuid.Validate(t.ID) == nil
}

// session returns the session of r, if it is valid and has not ended. A request that began in an
// earlier turn of its session may go on.
func (a *Authenticator) session(r *http.Request, began bool) (ticket, contract.StoredSession, error) {
	t, ok := a.ticketOf(r)
	if !ok {
		return t, contract.StoredSession{}, errNoKey
	}
	x, err := a.sessions.get(r.Context(), t.ID, a.store.Session)
	if err == nil && x.Turn < t.Turn { // another replica renewed it
		a.sessions.clear()
		x, err = a.sessions.get(r.Context(), t.ID, a.store.Session)
	}
	now := a.clock.Now()
	switch {
	case err != nil && bloom.KindOf(err) == bloom.KindNotFound:
		return t, x, errNoSession
	case err != nil:
		return t, x, err
	case x.ExpiresAt <= timing.Millis(now), t.Until != 0 && t.Until <= timing.Millis(now):
		return t, x, errNoSession
	case began, t.Turn == x.Turn, t.Turn == x.Turn-1 && now.Sub(time.UnixMilli(x.TurnedAt)) < turnGrace:
		return t, x, nil
	}
	return t, x, errNoSession
}

// bySession returns the caller of a request with a session cookie instead of a key; began as for
// session.
func (a *Authenticator) bySession(r *http.Request, began bool) (Principal, error) {
	t, x, err := a.session(r, began)
	if err != nil {
		return Principal{}, err
	}
	p := Principal{ID: t.Subject, Name: x.Name}
	if x.KeyID == nil {
		if p.Role = a.oidc.roleOf(t); p.Role == "" {
			return Principal{}, errNoSession
		}
	}
	if x.KeyID != nil {
		if len(t.Digest) != sha256.Size {
			return Principal{}, errNoSession
		}
		sum := [sha256.Size]byte(t.Digest)
		if p = a.byFixed(sum); !p.Known() {
			if p, err = a.byStored(r.Context(), *x.KeyID, sum, a.proxies.Client(r)); err != nil {
				return Principal{}, err
			}
		}
	}
	p.Session = x.ID
	a.used.session(x.ID, a.clock.Now())
	return p, nil
}
