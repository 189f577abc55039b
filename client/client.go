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

// DefaultUserAgent is the User-Agent of requests unless Options sets another.
const DefaultUserAgent = "bloom-go"

// Options configures a Client. The zero value works against a server in
// development mode.
type Options struct {
	// APIKey is sent as X-Runtime-API-Key; empty sends none.
	APIKey string
	// HTTPClient sends the requests. Nil means a new client with a connection pool for concurrent
	// use. It should have no Timeout, which would cut long polls and streams. Without a
	// CheckRedirect of its own it follows no redirect.
	HTTPClient *http.Client
	// TLS configures https connections; nil means the system's roots and no client certificate.
	// Ignored with an HTTPClient.
	TLS *tls.Config
	// UserAgent names the program; empty means DefaultUserAgent.
	UserAgent string
	// Timeout bounds one try of an ordinary call; 0 means DefaultTimeout. Long polls get their wait
	// added; streams end after a period of silence instead.
	Timeout time.Duration
	// Retry configures how often idempotent calls are retried.
	Retry Retry
	// OnRetry, when not nil, is called before a retry with the error of the last try and the wait
	// before the next, on the goroutine of the caller.
	OnRetry func(err error, wait time.Duration)
}

// Client is a client of one runtime. It is safe for concurrent use.
type Client struct {
	base      string // up to and including /api/runtime, no trailing slash
	key       string
	userAgent string
	timeout   time.Duration
	retry     Retry
	onRetry   func(error, time.Duration)
	http      *http.Client
}

// New returns a client of the runtime at baseURL ("https://host:5000"; a path before /api/runtime
// is allowed). It does not connect yet.
func New(baseURL string, o Options) (*Client, error) {
	u, err := url.Parse(strings.TrimSpace(baseURL))
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return nil, fmt.Errorf("runtime URL %q must look like http://host:5000", baseURL)
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New("runtime URL must not contain a user, query or fragment")
	}
	if strings.ContainsAny(o.APIKey, "\r\n") {
		return nil, errors.New("the API key contains a line break")
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
	switch {
	case c.http == nil:
		c.http = newHTTPClient(o.TLS)
	case c.http.CheckRedirect == nil:
		other := *c.http
		other.CheckRedirect = noRedirect
		c.http = &other
	}
	return c, nil
}

// HTTP2 returns the settings that find a dead connection, which all requests share, within half a
// minute. TCP alone takes up to 15 minutes.
func HTTP2() *http.HTTP2Config {
	return &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 10 * time.Second, WriteByteTimeout: 30 * time.Second}
}

// newHTTPClient keeps enough idle connections for dozens of concurrent calls.
func newHTTPClient(secure *tls.Config) *http.Client {
	dialer := &net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}
	return &http.Client{
		Transport: &http.Transport{
			Proxy:               http.ProxyFromEnvironment,
			DialContext:         dialer.DialContext,
			TLSClientConfig:     secure,
			ForceAttemptHTTP2:   true,
			HTTP2:               HTTP2(),
			MaxIdleConns:        256,
			MaxIdleConnsPerHost: 128,
			IdleConnTimeout:     90 * time.Second,
			TLSHandshakeTimeout: 10 * time.Second,
			// Large files are sent after the server has agreed to accept them.
			ExpectContinueTimeout: 5 * time.Second,
			ReadBufferSize:        16 << 10,
			WriteBufferSize:       16 << 10,
		},
		CheckRedirect: noRedirect,
	}
}

// noRedirect follows no redirect, which would send the key to its target.
func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// apiPath is the root of the runtime's API.
const apiPath = "/api/runtime"

// WithRetry returns a client with another Retry that shares the connections. WithRetry(NoRetry)
// suits a caller with its own retry loop.
func (c *Client) WithRetry(r Retry) *Client {
	other := *c
	other.retry = r.withDefaults()
	return &other
}

// BaseURL returns the URL of the runtime's API, without a trailing slash.
func (c *Client) BaseURL() string { return c.base }

// Close closes idle connections. The client can still be used.
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
		req.ContentLength = call.size
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
