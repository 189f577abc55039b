// Package mbclient is a client of membridge, the control plane. It tolerates a membridge that is
// slow, down, wrong or sends garbage. client.go and request.go are the HTTP client with retries,
// shape.go checks responses, calls.go and agents.go have the typed calls.
//
// It must not import the control plane's packages: they communicate over HTTP, and the other side
// may be the earlier Node implementation as well as ours.
package mbclient

import (
	"cmp"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/client"
	"github.com/bloom-runtime/bloom/internal/timing"
)

// Defaults of Options.
const (
	DefaultTimeout     = 10 * time.Second
	DefaultRetries     = 3
	DefaultBackoff     = 500 * time.Millisecond
	DefaultMaxResponse = 32 << 20
)

// NoRetries disables retries in Options.Retries.
const NoRetries = -1

// ErrAddressRefused is returned when Options.AddressPolicy refuses an address.
var ErrAddressRefused = errors.New("membridge's address is not allowed here")

// Options configures a Client. Zero fields get their defaults.
type Options struct {
	// URL is membridge's address, Key its admin key, AgentKey the key that agents use instead. Each
	// may be empty; Configure changes URL and Key later. Token proves that an agent owns its name.
	URL      string
	Key      string
	AgentKey string
	Token    string
	// TLS configures https; nil trusts the system's root certificates.
	TLS *tls.Config
	// KeyName is the setting to name when membridge refuses the key; it defaults to the variable of
	// the key in use.
	KeyName string

	Timeout time.Duration // of one try
	Retries int           // after the first try; NoRetries for none
	Backoff time.Duration // before the first retry, doubled for each further one
	// MaxResponse bounds a response, in bytes.
	MaxResponse int64
	// AddressPolicy refuses addresses. It is checked for each connection, after names were
	// resolved. Nil allows all: the operator chose the address.
	AddressPolicy func(netip.Addr) error

	Clock timing.Clock // timing.System when nil
}

func (o *Options) finish() {
	o.Timeout = cmp.Or(o.Timeout, DefaultTimeout)
	o.Backoff = cmp.Or(o.Backoff, DefaultBackoff)
	o.MaxResponse = cmp.Or(o.MaxResponse, DefaultMaxResponse)
	o.Retries = max(0, cmp.Or(o.Retries, DefaultRetries))
	if o.Clock == nil {
		o.Clock = timing.System{}
	}
}

// State is the connection as GET /api/runtime/health shows it.
type State struct {
	ConsecutiveFailures int     `json:"consecutiveFailures"`
	LastSuccess         *int64  `json:"lastSuccess" doc:"Unix milliseconds"`
	LastError           *string `json:"lastError"`
	Connected           bool    `json:"connected"`
	// SkippedAgents counts the invalid entries of the last list of agents, and SkippedWhy is what is
	// wrong with the first of them.
	SkippedAgents int    `json:"skippedAgents,omitempty"`
	SkippedWhy    string `json:"skippedWhy,omitempty"`
}

// Client speaks to one membridge at a time. All methods are safe for concurrent
// use, and bounded in time by (Timeout + waits) × (1 + Retries).
type Client struct {
	opt  Options
	http *http.Client

	mu     sync.Mutex
	target target
	state  State
}

// target is where calls go. The generation distinguishes outcomes for an address that was replaced
// in the meantime.
type target struct {
	url, key   string
	generation int
}

// New returns a client. It fails for an address that is not http(s) or contains a password.
func New(opt Options) (*Client, error) {
	opt.finish()
	c := &Client{opt: opt, http: newHTTP(opt)}
	return c, c.Configure(opt.URL, opt.Key)
}

// newHTTP returns an HTTP client without redirects, because the key must not travel to another
// address, and with limits on everything that a server can prolong. The context bounds the time of
// one try.
func newHTTP(opt Options) *http.Client {
	dialer := &net.Dialer{Timeout: opt.Timeout, KeepAlive: 30 * time.Second}
	if opt.AddressPolicy != nil {
		dialer.Control = func(_, address string, _ syscall.RawConn) error {
			ap, err := netip.ParseAddrPort(address)
			if err != nil || opt.AddressPolicy(ap.Addr()) != nil {
				return ErrAddressRefused
			}
			return nil
		}
	}
	return &http.Client{
		Transport: &http.Transport{
			// No proxy from the environment: it would see the key and hide the address from the
			// policy.
			DialContext: dialer.DialContext, ForceAttemptHTTP2: true, HTTP2: client.HTTP2(),
			MaxIdleConns: 8, MaxIdleConnsPerHost: 8, MaxConnsPerHost: 64, IdleConnTimeout: 30 * time.Second,
			TLSClientConfig: opt.TLS, TLSHandshakeTimeout: opt.Timeout, MaxResponseHeaderBytes: 32 << 10,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Configure changes address and key for later calls. It resets the state when either differs. With
// an empty address no membridge is configured, and every call fails immediately.
func (c *Client) Configure(address, key string) error {
	address = strings.TrimRight(strings.TrimSpace(address), "/")
	if address != "" {
		u, err := url.Parse(address)
		if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
			return bloom.Invalid("Membridge's address must be like http://127.0.0.1:8000, without password and query",
				bloom.FieldError{Field: "membridge_server_url", Message: "must be an http or https address"})
		}
	}
	if strings.ContainsAny(key, "\r\n\x00") {
		return bloom.Invalid("Membridge's key must be a single line")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.target.url == address && c.target.key == key {
		return nil
	}
	c.target = target{address, key, c.target.generation + 1}
	c.state = State{}
	return nil
}

// URL returns the current address.
func (c *Client) URL() string { return c.now().url }

func (c *Client) now() target {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.target
}

// State returns a copy of the connection's state.
func (c *Client) State() State {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state
}

// Close closes idle connections. Calls in progress are not affected.
func (c *Client) Close() { c.http.CloseIdleConnections() }

func (c *Client) succeeded(t target) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t.generation != c.target.generation {
		return
	}
	at := timing.Millis(c.opt.Clock.Now())
	c.state = State{LastSuccess: &at, Connected: true, SkippedAgents: c.state.SkippedAgents, SkippedWhy: c.state.SkippedWhy}
}

// skipped records how many entries of a list of agents were invalid.
func (c *Client) skipped(t target, n int, why string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t.generation == c.target.generation {
		c.state.SkippedAgents, c.state.SkippedWhy = n, why
	}
}

func (c *Client) failed(t target, why string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t.generation != c.target.generation {
		return
	}
	c.state.ConsecutiveFailures++
	c.state.LastError = &why
	c.state.Connected = false
}
