// Package auth tells who is calling: it turns a request's key into a Principal
// with a role, and says which roles a route admits. It knows no routes and no
// store; keys kept elsewhere come in through the Keys interface.
package auth

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"

	"github.com/bloom-runtime/bloom"
)

// Role is what a caller may do.
type Role string

// The roles of the wire contract.
const (
	RoleAdmin  Role = "admin"  // everything
	RoleClient Role = "client" // creates, leases, cancels, requeues, reads
	RoleWorker Role = "worker" // registers itself, claims, reports on its own leases
	RoleViewer Role = "viewer" // reads
)

// Roles lists every role.
var Roles = []Role{RoleAdmin, RoleClient, RoleWorker, RoleViewer}

// Principal is a caller. The zero Principal is nobody in particular, which only
// open routes admit.
type Principal struct {
	Name string // for the audit; also the scope of idempotency keys
	Role Role
}

// Known reports whether the caller has shown who it is.
func (p Principal) Known() bool { return p.Role != "" }

// MinKeyLength is the shortest key that is accepted, in bytes.
const MinKeyLength = 16

// HeaderKey is the runtime's own key header. "Authorization: Bearer" does too.
const HeaderKey = "X-Runtime-API-Key"

// Keys looks up keys that are kept elsewhere (created with `bloom keys`).
type Keys interface {
	// Lookup finds the principal of the key with this SHA-256. An unknown key
	// is the zero Principal and no error, and costs the same as a known one.
	Lookup(ctx context.Context, digest [sha256.Size]byte) (Principal, error)
}

// Config says which keys are good.
type Config struct {
	// AdminKey is RUNTIME_API_KEY; WorkerKey is RUNTIME_WORKER_KEY. Empty means
	// none; shorter than MinKeyLength is refused.
	AdminKey  string
	WorkerKey string
	// Keys looks further; nil means there are no others.
	Keys Keys
	// LoopbackOnly states that every listener is a loopback address or a unix
	// socket. Without it and without a key, New refuses.
	LoopbackOnly bool
	// InsecureNoAuth (--insecure-no-auth) admits everybody as admin, whatever
	// the address. For closed labs.
	InsecureNoAuth bool
	// WorkerCertificates states that a worker's key counts only on a TLS connection
	// whose client has shown a certificate that was verified.
	WorkerCertificates bool
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
	keys         Keys
	mode         Mode
	certificates bool // as Config.WorkerCertificates
	seal         *Sealer
	clock        bloom.Clock
}

type fixedKey struct {
	digest    [sha256.Size]byte
	principal Principal
}

// New checks the configuration. The errors are meant for the person who starts
// the server.
func New(c Config) (*Authenticator, error) {
	a := &Authenticator{keys: c.Keys, mode: ModeKeys, certificates: c.WorkerCertificates}
	for _, k := range []struct {
		setting, key string
		role         Role
	}{{"RUNTIME_API_KEY", c.AdminKey, RoleAdmin}, {"RUNTIME_WORKER_KEY", c.WorkerKey, RoleWorker}} {
		if k.key == "" {
			continue
		}
		if len(k.key) < MinKeyLength {
			return nil, fmt.Errorf("%s is shorter than %d characters; make one with `openssl rand -hex 32`", k.setting, MinKeyLength)
		}
		if strings.TrimSpace(k.key) != k.key {
			return nil, fmt.Errorf("%s begins or ends with white space", k.setting)
		}
		a.fixed = append(a.fixed, fixedKey{sha256.Sum256([]byte(k.key)), Principal{Name: string(k.role), Role: k.role}})
	}
	if c.AdminKey != "" && c.AdminKey == c.WorkerKey {
		return nil, errors.New("RUNTIME_API_KEY and RUNTIME_WORKER_KEY are the same; a worker's key must not be an admin's")
	}
	switch {
	case c.InsecureNoAuth:
		a.mode = ModeInsecure
	case c.AdminKey != "" || c.Keys != nil:
	case c.WorkerKey != "":
		return nil, errors.New("RUNTIME_WORKER_KEY is set but RUNTIME_API_KEY is not; set both, or neither for development on this machine")
	case !c.LoopbackOnly:
		return nil, errors.New("no RUNTIME_API_KEY is set, and a listener can be reached from other machines; " +
			"set a key (openssl rand -hex 32), listen on 127.0.0.1, or, in a closed lab, pass --insecure-no-auth")
	default:
		a.mode = ModeDevelopment
	}
	return a, nil
}

// Mode tells how callers are told apart, for the banner and the health answer.
func (a *Authenticator) Mode() Mode { return a.mode }

var (
	errNoKey = &bloom.Error{Kind: bloom.KindUnauthorized, Code: bloom.CodeUnauthorized,
		Message: "A key is needed: send it as X-Runtime-API-Key or Authorization: Bearer"}
	errBadKey = &bloom.Error{Kind: bloom.KindUnauthorized, Code: bloom.CodeUnauthorized,
		Message: "This key is not known"}
	errNotLocal = &bloom.Error{Kind: bloom.KindUnauthorized, Code: bloom.CodeUnauthorized,
		Message: "Without a key the server answers direct requests from its own machine only; set RUNTIME_API_KEY"}
	errNoCertificate = &bloom.Error{Kind: bloom.KindUnauthorized, Code: bloom.CodeUnauthorized,
		Message: "A worker's key counts only together with a client certificate here; give the worker --client-cert and --client-key"}
	errForbidden = &bloom.Error{Kind: bloom.KindForbidden, Code: bloom.CodeForbidden,
		Message: "This key's role may not do that"}
)

// Authenticate names the caller of r. The error is a *bloom.Error of kind
// Unauthorized, or what a lookup of stored keys failed with.
func (a *Authenticator) Authenticate(r *http.Request) (Principal, error) {
	switch a.mode { //nolint:exhaustive // with keys it goes on below
	case ModeInsecure:
		return Principal{Name: "anonymous", Role: RoleAdmin}, nil
	case ModeDevelopment:
		if !local(r) {
			return Principal{}, errNotLocal
		}
		return Principal{Name: "local", Role: RoleAdmin}, nil
	}
	key := requestKey(r)
	if key == "" {
		return a.bySession(r)
	}
	found, err := a.byKey(r.Context(), sha256.Sum256([]byte(key)))
	if a.certificates && found.Role == RoleWorker && r.TLS != nil && len(r.TLS.VerifiedChains) == 0 {
		return Principal{}, errNoCertificate
	}
	return found, err
}

func (a *Authenticator) byKey(ctx context.Context, digest [sha256.Size]byte) (Principal, error) {
	// Every fixed key is compared, and digests have one length: the time taken
	// tells nothing about how close a guess was.
	var found Principal
	for _, k := range a.fixed {
		if subtle.ConstantTimeCompare(k.digest[:], digest[:]) == 1 {
			found = k.principal
		}
	}
	if found.Known() {
		return found, nil
	}
	if a.keys != nil {
		p, err := a.keys.Lookup(ctx, digest)
		if err != nil || p.Known() {
			return p, err
		}
	}
	return Principal{}, errBadKey
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

// local reports whether r came straight from this machine: no proxy on the way
// and a Host that a page elsewhere cannot have been served under (DNS
// rebinding).
func local(r *http.Request) bool {
	for name := range r.Header {
		if name == "Forwarded" || name == "Via" || strings.HasPrefix(name, "X-Forwarded-") || name == "X-Real-Ip" {
			return false
		}
	}
	return localHost(r.Host) && localPeer(r.RemoteAddr) && ownPort(r)
}

// ownPort reports whether the Host names the port that the request came in on. Who
// was called under another one is a proxy or a forwarded port, with callers of its
// own. A proxy that sends our own address as the Host cannot be told apart.
func ownPort(r *http.Request) bool {
	at, known := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	if !known {
		return true // a unix socket has no port
	}
	port := "80"
	if r.TLS != nil {
		port = "443"
	}
	if _, p, err := net.SplitHostPort(r.Host); err == nil {
		port = p
	}
	return port == strconv.Itoa(at.Port)
}

func localHost(hostport string) bool {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if strings.EqualFold(strings.TrimSuffix(host, "."), "localhost") {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// localPeer trusts a peer that is not an IP address: that is a unix socket.
func localPeer(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return true
	}
	ip := net.ParseIP(host)
	return ip == nil || ip.IsLoopback()
}
