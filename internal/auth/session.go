package auth

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/bloom-runtime/bloom"
)

const (
	// SessionLife is how long a session lasts without being renewed.
	SessionLife = 12 * time.Hour
	// sessionRenewal is the age from which a session's cookie is renewed when it is used.
	sessionRenewal = time.Hour
	// turnGrace is how long the cookie before the newest one still counts: requests
	// may be on their way when it is renewed.
	turnGrace = time.Minute

	// SessionCookie is the cookie's name without TLS.
	SessionCookie = "bloom_session"
	// secureCookie is its name under TLS: browsers take it from this host alone.
	secureCookie = "__Host-" + SessionCookie
	// sealedAs keeps a sealed session from passing for another sealed secret.
	sealedAs = "session"
)

// ticket is what a session's cookie holds, sealed. The digest of the key is here and
// not in the database; the key is looked up again for each request, so that a session
// ends with it.
type ticket struct {
	ID     string `json:"id"`
	Turn   int64  `json:"turn"`
	Digest []byte `json:"digest,omitempty"` // absent for a session of a sign-in provider
	// Of a session of a sign-in provider: who it is, and when it ends however much it is
	// used (Unix milliseconds), so that whoever may no longer sign in there is out here.
	Subject string `json:"subject,omitempty"`
	Until   int64  `json:"until,omitempty"`
	// What the role comes from: it is decided anew for each request, so that changed
	// rules, or another provider, count at once.
	Issuer string   `json:"issuer,omitempty"`
	Client string   `json:"client,omitempty"`
	Groups []string `json:"groups,omitempty"` // those that had a role
}

// Visitor is where a browser signs in from.
type Visitor struct {
	Address, Agent string
	Secure         bool // it came over TLS
}

var (
	errNoSessions = &bloom.Error{Kind: bloom.KindConflict, Code: "sign_in_not_needed",
		Message: "This server asks for no key, so there is nothing to sign in to"}
	errWorkerSession = &bloom.Error{Kind: bloom.KindForbidden, Code: bloom.CodeForbidden,
		Message: "A worker's key cannot sign in; use a key for people"}
	errNoSession = &bloom.Error{Kind: bloom.KindUnauthorized, Code: bloom.CodeUnauthorized,
		Message: "This session has ended; sign in again"}
)

// SignIn exchanges a key for a session's cookie.
func (a *Authenticator) SignIn(ctx context.Context, key string, from Visitor) (*http.Cookie, Principal, error) {
	if keyed, err := a.keyed(ctx); err != nil {
		return nil, Principal{}, err
	} else if a.mode == ModeInsecure || a.mode == ModeDevelopment && !keyed || a.seal == nil || a.store == nil {
		return nil, Principal{}, errNoSessions
	}
	caller, err := a.byKey(ctx, key)
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

// begin stores a new session and makes its cookie.
func (a *Authenticator) begin(ctx context.Context, s bloom.BrowserSession, t ticket, from Visitor) (*http.Cookie, string, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return nil, "", err
	}
	s.ID, s.Address, s.Agent = id.String(), from.Address, cut(bloom.CleanText(from.Agent), 256)
	x, err := a.store.CreateSession(ctx, s, SessionLife, s.Name)
	if err != nil {
		return nil, "", err
	}
	t.ID, t.Turn = x.ID, x.Turn
	cookie, err := a.issue(t, from.Secure)
	return cookie, x.ID, err
}

func cut(s string, most int) string {
	if r := []rune(s); len(r) > most {
		return string(r[:most])
	}
	return s
}

// Renew issues the cookie of r's session anew when it has some age; nil when it need
// not be, or there is none.
func (a *Authenticator) Renew(r *http.Request, secure bool) (*http.Cookie, error) {
	t, x, err := a.session(r)
	if err != nil {
		return nil, nil // whoever has no session has none to renew
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

// SignOut ends a session, unless it is "", and is the cookies that make a browser
// forget it.
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

// Sessions lists sessions, the newest first.
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

// ticketOf is the ticket in r's cookie, when it is one of ours.
func (a *Authenticator) ticketOf(r *http.Request) (t ticket, ok bool) {
	if a.seal == nil || a.store == nil {
		return t, false
	}
	for _, name := range []string{secureCookie, SessionCookie} {
		c, err := r.Cookie(name)
		if err != nil {
			continue
		}
		opened, err := a.seal.Open(sealedAs, c.Value)
		if err == nil && json.Unmarshal([]byte(opened), &t) == nil && uuid.Validate(t.ID) == nil {
			return t, true
		}
	}
	return t, false
}

// session is the session that r brings, when it is one of ours and goes on.
func (a *Authenticator) session(r *http.Request) (ticket, bloom.KnownSession, error) {
	t, ok := a.ticketOf(r)
	if !ok {
		return t, bloom.KnownSession{}, errNoKey
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
	case x.ExpiresAt <= bloom.Millis(now), t.Until != 0 && t.Until <= bloom.Millis(now):
		return t, x, errNoSession
	case t.Turn == x.Turn, t.Turn == x.Turn-1 && now.Sub(time.UnixMilli(x.TurnedAt)) < turnGrace:
		return t, x, nil
	}
	return t, x, errNoSession
}

// bySession names the caller of a request that brings no key.
func (a *Authenticator) bySession(r *http.Request) (Principal, error) {
	t, x, err := a.session(r)
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
			if p, err = a.byStored(r.Context(), *x.KeyID, sum); err != nil {
				return Principal{}, err
			}
		}
	}
	p.Session = x.ID
	a.used.session(x.ID, a.clock.Now())
	return p, nil
}
