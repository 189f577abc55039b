// Package auth tells who is calling: it turns a request's key into a Principal
// with a role, and says which roles a route admits. It knows no routes. Keys and
// sessions are kept in a store, of which it caches a little for a moment.
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
)

// Role is what a caller may do.
type Role = bloom.Role

// The roles of the wire contract.
const (
	RoleAdmin  = bloom.RoleAdmin
	RoleClient = bloom.RoleClient
	RoleWorker = bloom.RoleWorker
	RoleViewer = bloom.RoleViewer
)

// Roles lists every role.
var Roles = bloom.Roles

// Principal is a caller. The zero Principal is nobody in particular, which only
// open routes admit.
type Principal struct {
	// ID is the key's: of a stored key its id, of a configured one its setting. It is
	// empty without a key.
	ID   string
	Name string // for the audit
	Role Role
	// Worker is the only one that a worker's key acts as; empty: any.
	Worker string
	// Session is the id of the caller's session, empty when it shows a key.
	Session string
}

// Known reports whether the caller has shown who it is.
func (p Principal) Known() bool { return p.Role != "" }

// Scope is what the caller's idempotency keys are unique in.
func (p Principal) Scope() string {
	switch { // names may be given twice
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
	// LocalWorkerID is the key of the worker in the same process.
	LocalWorkerID = "local-worker"
)

// MinKeyLength is the shortest key that is accepted, in bytes.
const MinKeyLength = 16

// HeaderKey is the runtime's own key header. "Authorization: Bearer" does too.
const HeaderKey = "X-Runtime-API-Key"

// Config says which keys are good.
type Config struct {
	// AdminKey is RUNTIME_API_KEY; WorkerKey is RUNTIME_WORKER_KEY. Empty means
	// none; shorter than MinKeyLength is refused.
	AdminKey  string
	WorkerKey string
	// LocalWorkerKey is for the worker in the same process. It does not end
	// development mode.
	LocalWorkerKey string
	// LoopbackOnly states that every listener is a loopback address or a unix
	// socket. Without it and without a key, Open refuses.
	LoopbackOnly bool
	// InsecureNoAuth (--insecure-no-auth) admits everybody as admin, whatever
	// the address. For closed labs.
	InsecureNoAuth bool
	// WorkerCertificates states that a worker's key counts only on a TLS connection
	// whose client has shown a certificate that was verified.
	WorkerCertificates bool
	// OIDC is the provider that people may sign in at; nil: there is none. With it
	// there is no development mode.
	OIDC *OIDC
}

// Mode is how callers are told apart.
type Mode string

// The modes.
const (
	ModeKeys        Mode = "keys"
	ModeDevelopment Mode = "development" // no key set: whoever is on this machine is admin
	ModeInsecure    Mode = "insecure"    // --insecure-no-auth: everybody is admin
)

// Authenticator tells callers apart. It is safe for concurrent use.
type Authenticator struct {
	fixed        []fixedKey
	mode         Mode // at the start; see Mode
	admin        bool // an admin's key is configured
	workerKey    bool // a worker's key is configured
	loopback     bool
	certificates bool // as Config.WorkerCertificates
	seal         *Sealer
	clock        bloom.Clock

	store    Store // nil until Open
	unhook   func()
	keys     cache[bloom.KnownKey]
	sessions cache[bloom.KnownSession]
	any      cache[bool]
	over     atomic.Bool // development mode is
	used     uses
	guesses  *guard.Limiter // of secrets, by key id
	oidc     *provider
}

type fixedKey struct {
	digest    [sha256.Size]byte
	principal Principal
}

// New checks the configuration. The errors are meant for the person who starts
// the server.
func New(c Config) (*Authenticator, error) {
	a := &Authenticator{mode: ModeKeys, guesses: guard.NewLimiter(bloom.SystemClock{}, guessesPerKey), certificates: c.WorkerCertificates, clock: bloom.SystemClock{},
		admin: c.AdminKey != "", workerKey: c.WorkerKey != "", loopback: c.LoopbackOnly}
	for _, k := range []struct {
		id, key string
		role    Role
	}{{AdminKeyID, c.AdminKey, RoleAdmin}, {WorkerKeyID, c.WorkerKey, RoleWorker}, {LocalWorkerID, c.LocalWorkerKey, RoleWorker}} {
		if k.key == "" {
			continue
		}
		if len(k.key) < MinKeyLength {
			return nil, fmt.Errorf("%s is shorter than %d characters; make one with `openssl rand -hex 32`", k.id, MinKeyLength)
		}
		if strings.TrimSpace(k.key) != k.key {
			return nil, fmt.Errorf("%s begins or ends with white space", k.id)
		}
		a.fixed = append(a.fixed, fixedKey{sha256.Sum256([]byte(k.key)), Principal{ID: k.id, Name: string(k.role), Role: k.role}})
	}
	if c.AdminKey != "" && c.AdminKey == c.WorkerKey {
		return nil, errors.New("RUNTIME_API_KEY and RUNTIME_WORKER_KEY are the same; a worker's key must not be an admin's")
	}
	switch {
	case c.InsecureNoAuth:
		a.mode = ModeInsecure
	case c.AdminKey == "" && c.OIDC == nil:
		a.mode = ModeDevelopment // Open may say otherwise
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

// Authenticate names the caller of r. The error is a *bloom.Error of kind
// Unauthorized, or what a lookup of stored keys failed with.
func (a *Authenticator) Authenticate(r *http.Request) (Principal, error) {
	switch a.mode { //nolint:exhaustive // with keys it goes on below
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
		return a.bySession(r)
	}
	found, err := a.byKey(r.Context(), key)
	if a.certificates && found.Role == RoleWorker && r.TLS != nil && len(r.TLS.VerifiedChains) == 0 {
		return Principal{}, errNoCertificate
	}
	return found, err
}

// development admits whoever is on this machine.
func (a *Authenticator) development(r *http.Request) (Principal, error) {
	if !guard.Local(r) {
		return Principal{}, errNotLocal
	}
	return Principal{Name: "local", Role: RoleAdmin}, nil
}

// byKey names the caller who shows a key.
func (a *Authenticator) byKey(ctx context.Context, key string) (Principal, error) {
	sum := sha256.Sum256([]byte(key))
	if p := a.byFixed(sum); p.Known() {
		return p, nil
	}
	id := keyID(key)
	if id == "" || a.store == nil {
		return Principal{}, errBadKey
	}
	return a.byStored(ctx, id, sum)
}

// byFixed compares with every configured key, and digests have one length: the time
// taken tells nothing about how close a guess was.
func (a *Authenticator) byFixed(sum [sha256.Size]byte) (found Principal) {
	for _, k := range a.fixed {
		if subtle.ConstantTimeCompare(k.digest[:], sum[:]) == 1 {
			found = k.principal
		}
	}
	return found
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
