package client

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// DefaultTimeout bounds one try of an ordinary call.
const DefaultTimeout = 30 * time.Second

// DefaultUserAgent is what requests carry unless Options says otherwise.
const DefaultUserAgent = "bloom-go"

// Options configures a Client. The zero value works against a server in
// development mode.
type Options struct {
	// APIKey is sent as X-Runtime-API-Key; empty sends none.
	APIKey string
	// HTTPClient carries the requests. Nil means a client of our own with a
	// connection pool for concurrent use. One that is given should have no
	// Timeout: it would cut long polls and streams.
	HTTPClient *http.Client
	// TLS is how https connections are made; nil means with the system's trust and
	// no certificate of our own. Ignored with an HTTPClient.
	TLS *tls.Config
	// UserAgent names the program; empty means DefaultUserAgent.
	UserAgent string
	// Timeout bounds one try of an ordinary call; 0 means DefaultTimeout. Long
	// polls get their wait on top, streams are bounded by silence instead.
	Timeout time.Duration
	// Retry says how often calls that are safe to repeat are repeated.
	Retry Retry
	// OnRetry is called before a call is repeated, with what its last try came to and
	// how long is waited first; by the goroutine that made the call. Nil: nobody
	// wants to know.
	OnRetry func(err error, wait time.Duration)
}

// Client talks to one runtime. Safe for concurrent use.
type Client struct {
	base      string // up to and including /api/runtime, no trailing slash
	key       string
	userAgent string
	timeout   time.Duration
	retry     Retry
	onRetry   func(error, time.Duration)
	http      *http.Client
}

// New makes a client of the runtime at baseURL ("https://host:5000", a path
// before /api/runtime is allowed). It connects to nothing yet.
func New(baseURL string, o Options) (*Client, error) {
	u, err := url.Parse(strings.TrimSpace(baseURL))
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return nil, fmt.Errorf("runtime URL %q must look like http://host:5000", baseURL)
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New("runtime URL must hold no user, query or fragment")
	}
	if strings.ContainsAny(o.APIKey, "\r\n") {
		return nil, errors.New("the API key holds a line break")
	}
	base := strings.TrimSuffix(strings.TrimRight(u.String(), "/"), apiPath)
	c := &Client{
		base:      base + apiPath,
		key:       o.APIKey,
		userAgent: cmp.Or(o.UserAgent, DefaultUserAgent),
		timeout:   cmp.Or(o.Timeout, DefaultTimeout),
		retry:     o.Retry.withDefaults(),
		onRetry:   o.OnRetry,
		http:      o.HTTPClient,
	}
	if c.http == nil {
		c.http = newHTTPClient(o.TLS)
	}
	return c, nil
}

// newHTTPClient pools enough connections that a worker or a load test with
// dozens of calls at once never dials anew for each.
func newHTTPClient(secure *tls.Config) *http.Client {
	dialer := &net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}
	return &http.Client{
		Transport: &http.Transport{
			Proxy:               http.ProxyFromEnvironment,
			DialContext:         dialer.DialContext,
			TLSClientConfig:     secure,
			ForceAttemptHTTP2:   true,
			MaxIdleConns:        256,
			MaxIdleConnsPerHost: 128,
			IdleConnTimeout:     90 * time.Second,
			TLSHandshakeTimeout: 10 * time.Second,
			// Large files are sent once the server has agreed to take them.
			ExpectContinueTimeout: 5 * time.Second,
			ReadBufferSize:        16 << 10,
			WriteBufferSize:       16 << 10,
		},
		// A redirect would carry the key to wherever it points.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// apiPath is where a runtime has its API.
const apiPath = "/api/runtime"

// WithRetry is the same client, on the same connections, with another Retry.
// WithRetry(NoRetry) suits a caller with a loop of its own.
func (c *Client) WithRetry(r Retry) *Client {
	other := *c
	other.retry = r.withDefaults()
	return &other
}

// BaseURL is the address of the runtime's API, without a trailing slash.
func (c *Client) BaseURL() string { return c.base }

// Close drops idle connections. The client may be used again.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// request builds one try of a call.
func (c *Client) request(ctx context.Context, call *call) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, call.method, c.base+call.path, call.reader())
	if err != nil {
		return nil, err
	}
	h := req.Header
	h.Set("User-Agent", c.userAgent)
	h.Set("Accept", cmp.Or(call.accept, "application/json"))
	if call.content != nil {
		req.ContentLength = call.content.Size()
		if req.ContentLength == 0 {
			req.Body = http.NoBody
		}
	}
	if call.body != nil || call.content != nil {
		h.Set("Content-Type", cmp.Or(call.contentType, "application/json"))
	}
	if c.key != "" {
		h.Set("X-Runtime-API-Key", c.key)
	}
	for name, value := range call.header {
		h.Set(name, value)
	}
	return req, nil
}
