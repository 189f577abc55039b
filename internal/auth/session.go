package auth

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"net/http"
	"time"

	"github.com/bloom-runtime/bloom"
)

const (
	// SessionLife is how long a session lasts without being renewed.
	SessionLife = 12 * time.Hour
	// sessionRenewal is the age from which a session is renewed when it is used.
	sessionRenewal = time.Hour

	sessionCookie = "bloom_session"
	// secureCookie is its name under TLS: browsers take it from this host alone.
	secureCookie = "__Host-" + sessionCookie
	// sealedAs keeps a sealed session from passing for another sealed secret.
	sealedAs = "session"
)

// Session is what a browser holds in place of a key: the key's digest, sealed. The key
// is looked up again for each request, so a session ends with its key.
type Session struct {
	Digest   []byte `json:"digest"`
	IssuedAt int64  `json:"issued_at"` // Unix seconds
}

var (
	errNoSessions = &bloom.Error{Kind: bloom.KindConflict, Code: "sign_in_not_needed",
		Message: "This server asks for no key, so there is nothing to sign in to"}
	errWorkerSession = &bloom.Error{Kind: bloom.KindForbidden, Code: bloom.CodeForbidden,
		Message: "A worker's key cannot sign in; use a key for people"}
)

// EnableSessions lets browsers exchange a key for a session, sealed with seal. It is
// called before the first request.
func (a *Authenticator) EnableSessions(seal *Sealer, clock bloom.Clock) {
	a.seal, a.clock = seal, clock
}

// SignIn exchanges a key for a session's cookie. Secure says that the browser came
// over TLS.
func (a *Authenticator) SignIn(ctx context.Context, key string, secure bool) (*http.Cookie, Principal, error) {
	if a.mode != ModeKeys || a.seal == nil {
		return nil, Principal{}, errNoSessions
	}
	digest := sha256.Sum256([]byte(key))
	caller, err := a.byKey(ctx, digest)
	if err != nil {
		return nil, Principal{}, err
	}
	if caller.Role == RoleWorker {
		return nil, Principal{}, errWorkerSession
	}
	cookie, err := a.issue(digest[:], secure)
	return cookie, caller, err
}

// Renew issues the cookie of r's session anew when it has some age; nil when it need
// not be, or there is none.
func (a *Authenticator) Renew(r *http.Request, secure bool) (*http.Cookie, error) {
	s, ok := a.session(r)
	if !ok || a.clock.Now().Sub(time.Unix(s.IssuedAt, 0)) < sessionRenewal {
		return nil, nil
	}
	return a.issue(s.Digest, secure)
}

// HasSession reports whether r's caller is known by a session and not by a key.
func (a *Authenticator) HasSession(r *http.Request) bool {
	_, ok := a.session(r)
	return ok && a.mode == ModeKeys && requestKey(r) == ""
}

// SignOut is the cookies that make a browser forget its session.
func SignOut() []*http.Cookie {
	plain, secure := cookie("", false, -1), cookie("", true, -1)
	return []*http.Cookie{plain, secure}
}

func (a *Authenticator) issue(digest []byte, secure bool) (*http.Cookie, error) {
	data, err := json.Marshal(Session{Digest: digest, IssuedAt: a.clock.Now().Unix()})
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
	c := &http.Cookie{Name: sessionCookie, Value: value, Path: "/", MaxAge: maxAge, HttpOnly: true, Secure: secure, SameSite: http.SameSiteStrictMode} //nolint:gosec // Secure wherever the browser came over TLS
	if secure {
		c.Name = secureCookie
	}
	return c
}

// session is the session that r brings, when it is one of ours and has not run out.
func (a *Authenticator) session(r *http.Request) (s Session, ok bool) {
	if a.seal == nil {
		return s, false
	}
	for _, name := range []string{secureCookie, sessionCookie} {
		c, err := r.Cookie(name)
		if err != nil {
			continue
		}
		opened, err := a.seal.Open(sealedAs, c.Value)
		if err != nil || json.Unmarshal([]byte(opened), &s) != nil || len(s.Digest) != sha256.Size {
			continue
		}
		age := a.clock.Now().Sub(time.Unix(s.IssuedAt, 0))
		return s, age < SessionLife && age > -SessionLife
	}
	return s, false
}

// bySession names the caller of a request that brings no key.
func (a *Authenticator) bySession(r *http.Request) (Principal, error) {
	s, ok := a.session(r)
	if !ok {
		return Principal{}, errNoKey
	}
	return a.byKey(r.Context(), [sha256.Size]byte(s.Digest))
}
