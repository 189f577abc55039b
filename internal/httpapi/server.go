// Package httpapi is the runtime's HTTP side: routes, the reading of bodies, the
// mapping of errors, streams. It holds no rule of the lifecycle and no SQL; what
// it serves are the use cases of internal/dispatch.
package httpapi

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/auth"
	"github.com/bloom-runtime/bloom/internal/dispatch"
	"github.com/bloom-runtime/bloom/internal/guard"
)

// probesLogged is how many requests of load balancers are logged a minute.
const probesLogged = 600

// strangersAudited is how many connection tests of callers without a key are audited a
// minute.
const strangersAudited = 20

// Config is what a Server needs. Service and Auth are required.
type Config struct {
	Service *dispatch.Service
	Auth    *auth.Authenticator
	// Origin guards against pages of other origins; nil trusts none but our own.
	Origin *auth.Origin
	// Proxy passes requests on to membridge; nil answers them with 502.
	Proxy MembridgeProxy
	// Web serves the web application; nil has none.
	Web WebApp
	// Installer makes other machines workers: GET /install.sh and /download/; nil has
	// none, and no routes.
	Installer Installer
	// Metrics serves the process's figures; nil has none, and no route.
	Metrics http.Handler
	// Observe hears of every answered request, with the pattern of its route; nil
	// tells nobody.
	Observe func(route string, status int, took time.Duration)
	// Proxies are those whose X-Forwarded-For names the caller, in the request log
	// and for limits by address; none by default.
	Proxies guard.Proxies
	// Logger gets one line a request and every failure of ours; nil discards.
	Logger *slog.Logger
	Clock  bloom.Clock // bloom.SystemClock when nil
	// BodyBudget bounds the memory of all large request bodies at once, in bytes: each
	// counts twice, as it came and decoded. DefaultBodyBudget when 0, and never less
	// than the largest body that is taken.
	BodyBudget int64
	// StreamTimeout is how long a reader of a stream or of an artifact may take
	// nothing before its connection is cut; DefaultStreamTimeout when 0.
	StreamTimeout time.Duration
	// Limits are requests a minute; the zero value has none.
	Limits Limits
	// Refused hears of every request that a limit refused, by the limit's name; nil tells nobody.
	Refused func(limit string)
	// Disk is the space of the data folder, nil when it is not known; health leaves
	// it out when Disk is nil.
	Disk func() *Disk
	// Version is shown in the API's description.
	Version string
	// StartedAt is when the process began, for health's uptime; now when zero.
	StartedAt time.Time
}

// WebApp serves what no route of the API does. It is open to everybody: the
// application's files hold no secret, and the API decides on the rest.
type WebApp interface {
	http.Handler
	// Serves reports whether the request is the application's to answer.
	Serves(r *http.Request) bool
}

// Installer serves files under routes of its own.
type Installer interface {
	http.Handler
	Routes() []string // patterns for a mux
}

// Server answers the runtime's HTTP requests. It is safe for concurrent use.
type Server struct {
	svc     *dispatch.Service
	auth    *auth.Authenticator
	origin  *auth.Origin
	proxy   MembridgeProxy
	proxies guard.Proxies
	web     WebApp
	log     *slog.Logger
	clock   bloom.Clock
	started time.Time
	version string
	limits  *limits
	// strangers bounds what callers without a key write into the audit.
	strangers                    *guard.Limiter
	stored                       probe
	probed                       *guard.Limiter // lines of the log for probes, which no limit refuses
	bodies                       *budget
	refusalsOfOne, refusalsOfAll *guard.Limiter
	mux                          *guard.Mux[auth.Policy]
	api                          huma.API
	spec                         json.RawMessage // the API's description
	observe                      func(route string, status int, took time.Duration)

	disk          func() *Disk
	streamTimeout time.Duration
}

// New builds the handler. It panics when a route has no policy or is registered
// twice: both are mistakes in this package.
func New(c Config) *Server {
	if c.Clock == nil {
		c.Clock = bloom.SystemClock{}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Origin == nil {
		c.Origin, _ = auth.NewOrigin() // without trusted origins it cannot fail
	}
	if c.StartedAt.IsZero() {
		c.StartedAt = c.Clock.Now()
	}
	s := &Server{
		svc: c.Service, auth: c.Auth, origin: c.Origin, proxy: c.Proxy, proxies: c.Proxies, web: c.Web, log: c.Logger,
		clock: c.Clock, started: c.StartedAt, version: c.Version, observe: c.Observe, limits: newLimits(c), strangers: guard.NewLimiter(c.Clock, strangersAudited), probed: guard.NewLimiter(c.Clock, probesLogged),
		bodies: newBudget(cmp.Or(c.BodyBudget, DefaultBodyBudget)), streamTimeout: cmp.Or(c.StreamTimeout, DefaultStreamTimeout), disk: c.Disk,
	}
	s.refusalsOfOne, s.refusalsOfAll = guard.NewLimiter(c.Clock, refusalsOfOne), guard.NewLimiter(c.Clock, refusalsOfAll)
	s.mux = guard.NewMux(policies, s.enter)
	s.api = humago.New(s.mux, apiConfig(c.Version))
	s.routes()
	s.describe()
	if c.Installer != nil {
		for _, pattern := range c.Installer.Routes() {
			s.mux.HandleFunc(pattern, c.Installer.ServeHTTP)
		}
	}
	if c.Metrics != nil {
		s.mux.HandleFunc("GET /metrics", c.Metrics.ServeHTTP)
	}
	return s
}

func apiConfig(version string) huma.Config {
	config := huma.DefaultConfig("BLOOM Runtime", version)
	config.OpenAPIPath, config.DocsPath, config.SchemasPath = "", "", "" // served by describe
	config.CreateHooks = nil                                             // no $schema in bodies
	config.AllowAdditionalPropertiesByDefault = true                     // unknown fields are ignored
	config.Transformers = []huma.Transformer{humaFailure}
	config.Formats = map[string]huma.Format{"application/json": jsonFormat, "json": jsonFormat}
	config.Info.Description = "Durable runtime for LLM agent tasks. Times are Unix epoch milliseconds."
	config.Components.SecuritySchemes = map[string]*huma.SecurityScheme{
		"key":     {Type: "apiKey", In: "header", Name: auth.HeaderKey},
		"bearer":  {Type: "http", Scheme: "bearer"},
		"session": {Type: "apiKey", In: "cookie", Name: auth.SessionCookie},
	}
	return config
}

// Policies is the policy of every route, by "METHOD /path".
func (s *Server) Policies() map[string]auth.Policy { return s.mux.Policies() }

// OpenAPI returns the API's description, OpenAPI 3.1 in JSON, as GET /openapi.json
// serves it. No server has to run for it.
func OpenAPI(version string) json.RawMessage { return New(Config{Version: version}).spec }

// ServeHTTP answers one request: it names it, guards it, serves it, and writes
// one line about it.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	began := s.clock.Now()
	id := requestID(r)
	routed := r // the mux writes the pattern to it
	rec := recorders.Get().(*recorder)
	*rec = recorder{ResponseWriter: w}
	h := w.Header()
	h["X-Request-Id"] = []string{id}
	h["X-Content-Type-Options"] = nosniff
	h["Cache-Control"] = noStore
	defer func() {
		p := recover()
		cut := p != nil && s.panicked(rec, r, id, p)
		took := s.clock.Now().Sub(began)
		s.logRequest(r, rec.status, id, took)
		if s.observe != nil {
			s.observe(routed.Pattern, cmp.Or(rec.status, http.StatusOK), took)
		}
		*rec = recorder{}
		recorders.Put(rec)
		if cut {
			panic(http.ErrAbortHandler) // net/http cuts the connection: the answer is incomplete
		}
	}()
	if err := s.origin.Check(r); err != nil {
		rec.matched = true
		s.failure(r.Context(), id, err).write(rec)
		return
	}
	routed = r.WithContext(context.WithValue(r.Context(), callKey{}, &call{id: id}))
	s.mux.ServeHTTP(rec, routed)
	if rec.held != 0 {
		rec.matched = true
		if rec.held == http.StatusNotFound && s.web != nil && s.web.Serves(r) {
			rec.held = 0
			clear(h)
			h["X-Request-Id"] = []string{id}
			s.web.ServeHTTP(rec, r)
			return
		}
		s.unmatched(rec, r, id)
	}
}

var (
	nosniff = []string{"nosniff"}
	noStore = []string{"no-store"}
)

// unmatched answers what the mux has no route for.
func (s *Server) unmatched(rec *recorder, r *http.Request, id string) {
	caller, err := s.auth.Authenticate(r)
	if err != nil {
		caller = auth.Principal{}
	}
	if err := s.limited(rec, r, caller, auth.Open); err != nil {
		rec.held = 0
		s.failure(r.Context(), id, err).write(rec)
		return
	}
	f := &Failure{Message: "There is nothing at this address", Code: bloom.CodeNotFound, RequestID: id, status: rec.held}
	switch rec.held {
	case http.StatusMethodNotAllowed:
		f.Message, f.Code = "This address does not take "+methodText(r.Method), "method_not_allowed"
	case http.StatusNotFound:
	default:
		f.Message, f.Code = "The request is wrong", bloom.CodeInvalid
	}
	rec.held = 0
	f.write(rec)
}

func methodText(m string) string {
	switch m {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return m
	}
	return "this method"
}

// enter is the door of every route: it names the caller and holds it against
// the route's policy.
func (s *Server) enter(policy auth.Policy, h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.(*recorder).matched = true
		c := callOf(r.Context())
		caller, err := s.auth.Authenticate(r)
		switch {
		case err != nil && !policy.Open():
		case err != nil: // an open route serves strangers, and shows them less
			caller, err = auth.Principal{}, nil
		default:
			err = policy.Check(caller)
		}
		if refused := s.limited(w, r, caller, policy); refused != nil {
			err = refused
		}
		if err != nil {
			s.auditRefusal(r, caller, err)
			s.failure(r.Context(), c.id, err).write(w)
			return
		}
		ctx, cut := context.WithCancelCause(bloom.WithCaller(r.Context(), bloom.Caller{KeyID: caller.ID, Role: caller.Role, Address: s.proxies.Client(r)}))
		defer cut(nil)
		r = r.WithContext(ctx)
		c.caller, c.r, c.w = caller, r, w
		c.accept = r.Header.Get("Accept")
		r.Header.Del("Accept") // answers have one form, and huma 2.39 panics on a parameter without a type
		defer s.bodies.release(c)
		h(w, r)
		if c.rest != nil {
			defer s.auth.Watch(r, caller, cut)()
			c.rest()
		}
	}
}

// panicked answers for a handler that panicked and logs it once, with its stack.
// cut tells that an answer has begun and cannot be ended properly.
func (s *Server) panicked(rec *recorder, r *http.Request, id string, p any) (cut bool) {
	if p == http.ErrAbortHandler || r.Context().Err() != nil { //nolint:errorlint // a panic's value is never wrapped
		return true // the caller is gone, or the handler meant to cut
	}
	s.log.LogAttrs(r.Context(), slog.LevelError, "a handler panicked",
		slog.String("request_id", id), slog.String("panic", fmt.Sprint(p)), slog.String("stack", string(debug.Stack())))
	if rec.status != 0 {
		return true
	}
	rec.matched, rec.held = true, 0
	f := &Failure{Message: bloom.Internal(nil).Message, Code: bloom.CodeInternal, RequestID: id, status: http.StatusInternalServerError}
	f.write(rec)
	return false
}

// logRequest writes one line: never the query, a header or a body, where keys
// and prompts are.
func (s *Server) logRequest(r *http.Request, status int, id string, took time.Duration) {
	ctx, level := r.Context(), slog.LevelInfo
	if status == http.StatusTooManyRequests || isProbe(r.URL.Path) && s.probed.Allow("").Wait > 0 {
		level = slog.LevelDebug // there may be very many; limits tell of the refused together
	}
	if !s.log.Enabled(ctx, level) {
		return
	}
	if status == 0 {
		status = http.StatusOK
	}
	path := r.URL.EscapedPath()
	if len(path) > 256 {
		path = path[:256] + "…"
	}
	var line [320]byte
	b := append(line[:0], r.Method...)
	b = append(b, ' ')
	b = append(b, path...)
	b = append(b, ' ')
	b = strconv.AppendInt(b, int64(status), 10)
	b = append(b, ' ')
	b = strconv.AppendInt(b, took.Milliseconds(), 10)
	b = append(b, "ms"...)
	s.log.LogAttrs(ctx, level, string(b), slog.String("request_id", id), slog.String("client", s.proxies.Client(r)))
}

// requestID is the caller's own id for the request when it is a sane one.
func requestID(r *http.Request) string {
	if id := r.Header.Get("X-Request-Id"); saneID(id) {
		return id
	}
	var raw [12]byte
	_, _ = rand.Read(raw[:]) // never fails since Go 1.24
	return hex.EncodeToString(raw[:])
}

func saneID(id string) bool {
	if len(id) < 1 || len(id) > 64 {
		return false
	}
	for i := range len(id) {
		switch c := id[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '_', c == '.':
		default:
			return false
		}
	}
	return true
}
