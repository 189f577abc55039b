// Package auth authenticates callers: it turns a request's key into a Principal with a role, and
// defines which roles a route admits. It knows no routes. Keys and sessions are in a store, with a
// short-lived cache.
package auth

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/guard"
	"github.com/bloom-runtime/bloom/internal/store/contract"
	"github.com/bloom-runtime/bloom/internal/timing"
)

// Role is what a caller may do.
type Role = bloom.Role

// The roles of the wire contract.
const (
	RoleAdmin    = bloom.RoleAdmin
	RoleClient   = bloom.RoleClient
	RoleWorker   = bloom.RoleWorker
	RoleApprover = bloom.RoleApprover
	RoleViewer   = bloom.RoleViewer
)

// Roles lists every role.
var Roles = bloom.Roles

// Principal is an authenticated caller. The zero Principal is anonymous and admitted only to open
// routes.
type Principal struct {
	// ID identifies the key: the id of a stored key, or the setting of a configured one. It is
	// empty without a key.
	ID   string
	Name string // for the audit
	Role Role
	// Worker is the only worker that the key may act as; empty means any.
	Worker string
	// Session is the id of the caller's session, empty when the request has a key.
	Session string
}

// Known reports whether the caller is authenticated.
func (p Principal) Known() bool { return p.Role != "" }

// Scope returns the scope of the caller's idempotency keys.
func (p Principal) Scope() string {
	switch { // names need not be unique
	case isKeyID(p.ID):
		return keyPrefix + p.ID
	case strings.HasPrefix(p.ID, oidcPrefix):
		return p.ID
	}
	return p.Name
}

// IDs of the configured keys.
const (
	AdminKeyID  = "RUNTIME_API_KEY"
	WorkerKeyID = "RUNTIME_WORKER_KEY"
	// LocalWorkerID is the id of the key of the worker in the same process.
	LocalWorkerID = "local-worker"
)

// MinKeyLength is the shortest key that is accepted, in bytes.
const MinKeyLength = 16

// HeaderKey is the header for the key. "Authorization: Bearer" works, too.
const HeaderKey = "X-Runtime-API-Key"

// Config configures authentication.
type Config struct {
	// AdminKey is RUNTIME_API_KEY; WorkerKey is RUNTIME_WORKER_KEY. Empty means
	// none; shorter than MinKeyLength is refused.
	AdminKey  string
	WorkerKey string
	// LocalWorkerKey is the key of the worker in the same process. It does not end development
	// mode.
	LocalWorkerKey string
	// LoopbackOnly states that every listener is a loopback address or a unix
	// socket. Without it and without a key, Open refuses.
	LoopbackOnly bool
	// InsecureNoAuth (--insecure-no-auth) admits everyone as admin, on any address. For closed
	// labs.
	InsecureNoAuth bool
	// WorkerCertificates accepts worker keys only on TLS connections with a verified client
	// certificate.
	WorkerCertificates bool
	// Proxies are trusted to name the address of a caller.
	Proxies guard.Proxies
	// OIDC is the sign-in provider; nil for none. With it there is no development mode.
	OIDC *OIDC
}

// Mode is how callers are authenticated.
type Mode string

// The modes.
const (
	ModeKeys        Mode = "keys"
	ModeDevelopment Mode = "development" // no key set: everyone on this machine is admin
	ModeInsecure    Mode = "insecure"    // --insecure-no-auth: everyone is admin
)

// Authenticator authenticates callers. It is safe for concurrent use.
type Authenticator struct {
	fixed        []fixedKey
	mode         Mode // at the start; see Mode
	admin        bool // an admin key is configured
	workerKey    bool // a worker key is configured
	loopback     bool
	certificates bool // as Config.WorkerCertificates
	seal         *Sealer
	clock        timing.Clock

	store    Store // nil until Open
	unhook   func()
	keys     cache[contract.StoredKey]
	sessions cache[contract.StoredSession]
	any      cache[bool]
	over     atomic.Bool // development mode has ended
	used     uses
	guesses  *guard.Limiter // of secrets, by key id
	misses   *guard.Limiter // lookups of keys that do not exist, by network
	existing keyIDs
	proxies  guard.Proxies
	oidc     *provider
}

type fixedKey struct {
	digest    [sha256.Size]byte
	principal Principal
}

// New validates the configuration. Its errors are for the operator who starts the server.
func New(c Config) (*Authenticator, error) {
	a := &Authenticator{mode: ModeKeys, proxies: c.Proxies, certificates: c.WorkerCertificates, clock: timing.System{},
		admin: c.AdminKey != "", workerKey: c.WorkerKey != "", loopback: c.LoopbackOnly}
	for _, k := range []struct {
		id, key string
		role    Role
	}{{AdminKeyID, c.AdminKey, RoleAdmin}, {WorkerKeyID, c.WorkerKey, RoleWorker}, {LocalWorkerID, c.LocalWorkerKey, RoleWorker}} {
		if k.key == "" {
			continue
		}
		if len(k.key) < MinKeyLength {
			return nil, fmt.Errorf("%s is shorter than %d characters; generate one with `openssl rand -hex 32`", k.id, MinKeyLength)
		}
		if strings.TrimSpace(k.key) != k.key {
			return nil, fmt.Errorf("%s starts or ends with white space", k.id)
		}
		a.fixed = append(a.fixed, fixedKey{sha256.Sum256([]byte(k.key)), Principal{ID: k.id, Name: string(k.role), Role: k.role}})
	}
	if c.AdminKey != "" && c.AdminKey == c.WorkerKey {
		return nil, errors.New("RUNTIME_API_KEY and RUNTIME_WORKER_KEY are the same; a worker key must not be an admin key")
	}
	switch {
	case c.InsecureNoAuth:
		a.mode = ModeInsecure
	case c.AdminKey == "" && c.OIDC == nil:
		a.mode = ModeDevelopment // Open may change it
	}
	if c.OIDC != nil {
		a.oidc = newProvider(*c.OIDC)
	}
	return a, nil
}

var (
	errNoKey = &bloom.Error{Kind: bloom.KindUnauthorized, Code: bloom.CodeUnauthorized,
		Message: "A key is needed: send it as X-Runtime-API-Key or Authorization: Bearer"}
	errBadKey = &bloom.Error{Kind: bloom.KindUnauthorized, Code: bloom.CodeUnauthorized,
		Message: "This key is not known"}
	errRevokedKey = &bloom.Error{Kind: bloom.KindUnauthorized, Code: bloom.CodeUnauthorized,
		Message: "This key has been revoked"}
	errExpiredKey = &bloom.Error{Kind: bloom.KindUnauthorized, Code: bloom.CodeUnauthorized,
		Message: "This key has expired"}
	errNotLocal = &bloom.Error{Kind: bloom.KindUnauthorized, Code: bloom.CodeUnauthorized,
		Message: "Without a key the server answers direct requests from its own machine only; set RUNTIME_API_KEY"}
	errNoCertificate = &bloom.Error{Kind: bloom.KindUnauthorized, Code: bloom.CodeNoCertificate,
		Message: "A worker's key counts only together with a client certificate here; give the worker --client-cert and --client-key"}
)

// Authenticate returns the caller of r. The error is a *bloom.Error of kind Unauthorized, or the
// failure of a lookup of stored keys.
func (a *Authenticator) Authenticate(r *http.Request) (Principal, error) {
	switch a.mode { //nolint:exhaustive // keys are handled below
	case ModeInsecure:
		return Principal{Name: "anonymous", Role: RoleAdmin}, nil
	case ModeDevelopment:
		if keyed, err := a.keyed(r.Context()); err != nil {
			return Principal{}, err
		} else if !keyed {
			return a.development(r)
		}
	}
	key := requestKey(r)
	if key == "" {
		return a.bySession(r, false)
	}
	found, err := a.byKey(r.Context(), key, a.proxies.Client(r))
	if a.certificates && found.Role == RoleWorker && r.TLS != nil && len(r.TLS.VerifiedChains) == 0 {
		return Principal{}, errNoCertificate
	}
	return found, err
}

// development admits everyone on this machine.
func (a *Authenticator) development(r *http.Request) (Principal, error) {
	if !guard.Local(r) {
		return Principal{}, errNotLocal
	}
	return Principal{Name: "local", Role: RoleAdmin}, nil
}

// byKey returns the caller with a key, from an address.
func (a *Authenticator) byKey(ctx context.Context, key, address string) (Principal, error) {
	sum := sha256.Sum256([]byte(key))
	if p := a.byFixed(sum); p.Known() {
		return p, nil
	}
	id := keyID(key)
	if id == "" || a.store == nil {
		return Principal{}, errBadKey
	}
	return a.byStored(ctx, id, sum, address)
}

// Valid reports whether a key authenticates a caller from an address.
func (a *Authenticator) Valid(ctx context.Context, key, address string) bool {
	p, err := a.byKey(ctx, key, address)
	return err == nil && p.Known()
}

// byFixed compares the digest with those of all configured keys, so that the time taken reveals
// nothing about a guess.
func (a *Authenticator) byFixed(sum [sha256.Size]byte) (found Principal) {
	for _, k := range a.fixed {
		if subtle.ConstantTimeCompare(k.digest[:], sum[:]) == 1 {
			found = k.principal
		}
	}
	return found
}

// Presented reports whether r has a key or a session cookie, valid or not.
func Presented(r *http.Request) bool {
	if requestKey(r) != "" {
		return true
	}
	for _, name := range []string{secureCookie, SessionCookie} {
		if _, err := r.Cookie(name); err == nil {
			return true
		}
	}
	return false
}

func requestKey(r *http.Request) string {
	if key := r.Header.Get(HeaderKey); key != "" {
		return key
	}
	const scheme = "bearer "
	if h := r.Header.Get("Authorization"); len(h) > len(scheme) && strings.EqualFold(h[:len(scheme)], scheme) {
		return strings.TrimSpace(h[len(scheme):])
	}
	return ""
}
