package httpapi

import (
	"log/slog"
	"net/http"
	"time"

	"github.com/bloom-runtime/bloom/internal/auth"
	"github.com/bloom-runtime/bloom/internal/dispatch"
	"github.com/bloom-runtime/bloom/internal/guard"
	"github.com/bloom-runtime/bloom/internal/store/contract"
	"github.com/bloom-runtime/bloom/internal/timing"
)

// Config configures a Server. Service, Store and Auth are required.
type Config struct {
	Service *dispatch.Service
	// Store is the one of Service, for requests that are one operation of it.
	Store contract.Store
	Auth  *auth.Authenticator
	// Origin refuses requests of pages of other origins; nil: of all but the server's own.
	Origin *auth.Origin
	// Proxy forwards requests to membridge; nil: they are answered with 502.
	Proxy MembridgeProxy
	// Web serves the web application; it may be nil.
	Web WebApp
	// Installer serves the worker installation: GET /install.sh and /download/; it may be
	// nil.
	Installer Installer
	// Metrics serves GET /metrics; it may be nil.
	Metrics http.Handler
	// Observe is called after every request, with the pattern of its route; it may be
	// nil.
	Observe func(route string, status int, took time.Duration)
	// Known is called for every request of an authenticated caller; it may be nil.
	Known func(*http.Request)
	// Proxies are the proxies whose X-Forwarded-For is trusted, for the request log and
	// for limits by address.
	Proxies guard.Proxies
	// Logger gets one line per request and every internal error; nil discards.
	Logger *slog.Logger
	// RequestLevel is the level of the lines about requests; that of those that failed here is Info.
	RequestLevel slog.Level
	Clock        timing.Clock // timing.System when nil
	// BodyBudget limits the memory of all large request bodies together, in bytes, that of all
	// large responses, and twice that of small bodies. Large ones count twice, raw and decoded. A
	// key may use a third of each. 0: DefaultBodyBudget.
	BodyBudget int64
	// StreamTimeout is how long a reader of a stream or of an artifact may read nothing
	// before its connection is cut. 0: DefaultStreamTimeout.
	StreamTimeout time.Duration
	// PageBytes limits one page of a list, in bytes; 0: search.DefaultPageBytes.
	PageBytes int
	// Limits are requests per minute; the zero value has none.
	Limits Limits
	// Refused is called with the name of the limit for every request that a limit
	// refuses; it may be nil.
	Refused func(limit string)
	// Disk returns the space on the disk of the data directory, nil if unknown; Disk itself
	// may be nil.
	Disk func() *Disk
	// PrivateCA reports whether the server's certificate is signed by an authority that systems do
	// not know; it may be nil.
	PrivateCA func() bool
	// LoopbackOnly is whether only this machine reaches the server directly.
	LoopbackOnly bool
	// Version is shown in the API's description.
	Version string
	// StartedAt is when the process started, for health's uptime. Zero: now.
	StartedAt time.Time
}

// WebApp serves requests that match no route. It is open to everybody: its files
// contain no secrets.
type WebApp interface {
	http.Handler
	// Serves reports whether the application answers the request.
	Serves(r *http.Request) bool
}

// Installer serves files under routes of its own.
type Installer interface {
	http.Handler
	Routes() []string // patterns for a mux
}
