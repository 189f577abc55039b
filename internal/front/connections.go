package front

import (
	"container/list"
	"context"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"
)

// connections limits the connections of a server. Beyond the limit it closes the stranger, whose last
// request had no key, that has neither begun nor ended a request for longest, even while it reads a
// response: otherwise slow readers could take every connection. Then it closes the connection that
// has been idle longest. It never closes one with an active request of a known caller.
type connections struct {
	most int
	log  *slog.Logger

	mu        sync.Mutex
	open      map[net.Conn]*connection
	strangers *list.List // of *connection, in the order of their last change
	idle      *list.List // of *connection of known callers without an active request, longest first
	unasked   int        // connections without any request so far
	closed    int        // closed over the limit since last logged
	logged    time.Time
}

type connection struct {
	net.Conn

	of      *connections
	asked   bool
	known   bool // the last request was that of a known caller
	running int  // active requests
	in      *list.List
	at      *list.Element // in that list; nil without one
}

// OpenFiles returns the process's open file limit, at most a million.
func OpenFiles() int {
	const most, fallback = 1_000_000, 1024
	var files syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files) != nil {
		return fallback
	}
	return int(min(uint64(files.Cur), most)) //nolint:unconvert // signed on some systems
}

// mostConnections is the default limit: it leaves a quarter of the open files to the database and
// everything else.
func mostConnections() int { return min(OpenFiles()/4*3, 50_000) }

func newConnections(most int, log *slog.Logger) *connections {
	if most <= 0 {
		most = mostConnections()
	}
	return &connections{most: most, log: log, open: map[net.Conn]*connection{}, strangers: list.New(), idle: list.New()}
}

type connectionKey struct{}

// begin is the ConnContext of a server: net/http calls it for each new connection, before it
// accepts the next.
func (c *connections) begin(ctx context.Context, conn net.Conn) context.Context {
	boundUnsent(conn)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, closable := range []*list.List{c.strangers, c.idle} {
		if len(c.open) >= c.most && closable.Len() > 0 {
			c.drop(closable.Front().Value.(*connection))
		}
	}
	one := &connection{Conn: conn, of: c}
	c.open[conn] = one
	c.unasked++
	c.place(one)
	if len(c.open) > c.most { // all others have active requests of known callers
		c.drop(one)
	}
	return context.WithValue(ctx, connectionKey{}, one)
}

// connectionsEvery is how often closed connections are logged.
const connectionsEvery = 10 * time.Second

func (c *connections) drop(one *connection) {
	c.forget(one)
	c.closed++
	if now := time.Now(); now.Sub(c.logged) >= connectionsEvery {
		c.log.Warn("too many connections; closed those of callers without a key, then the longest-idle ones", "closed", c.closed, "limit", c.most)
		c.closed, c.logged = 0, now
	}
	conn := one.Conn
	if secure, is := conn.(*securedConn); is {
		conn = secure.NetConn() // the Close of TLS would wait for the other side
	}
	_ = conn.Close()
}

// forget requires the lock.
func (c *connections) forget(one *connection) {
	if c.open[one.Conn] != one {
		return
	}
	delete(c.open, one.Conn)
	if !one.asked {
		c.unasked--
	}
	c.place(one)
}

// place moves a connection to the end of the list that it belongs to, if any. It requires the lock.
func (c *connections) place(one *connection) {
	if one.at != nil {
		one.in.Remove(one.at)
		one.at = nil
	}
	switch {
	case c.open[one.Conn] != one || one.known && one.running > 0:
		return
	case one.known:
		one.in = c.idle
	default:
		one.in = c.strangers
	}
	one.at = one.in.PushBack(one)
}

// changed is the ConnState hook of a server.
func (c *connections) changed(conn net.Conn, state http.ConnState) {
	if state != http.StateClosed && state != http.StateHijacked {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if one := c.open[conn]; one != nil {
		c.forget(one)
	}
}

// request records that a request has reached a handler; done records its end.
func (c *connections) request(r *http.Request) (done func()) {
	one, known := r.Context().Value(connectionKey{}).(*connection)
	if !known {
		return func() {}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !one.asked && c.open[one.Conn] == one {
		one.asked = true
		c.unasked--
	}
	if one.running == 0 {
		one.known = false // a proxy's connection has requests of many
	}
	one.running++
	c.place(one)
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		one.running--
		c.place(one)
	}
}

// Known records that the caller of an active request has proved who it is: its connection is not
// closed for others while it has an active request.
func Known(r *http.Request) {
	one, counted := r.Context().Value(connectionKey{}).(*connection)
	if !counted {
		return
	}
	one.of.mu.Lock()
	defer one.of.mu.Unlock()
	if !one.known {
		one.known = true
		one.of.place(one)
	}
}

// firstRequestWait bounds the wait for the first request on a connection: browsers connect in
// advance.
const firstRequestWait = time.Second

// wait returns when every connection has had a request.
func (c *connections) wait(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, firstRequestWait)
	defer cancel()
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for !c.allAsked() {
		select {
		case <-look.C:
		case <-ctx.Done():
			return
		}
	}
}

func (c *connections) allAsked() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.unasked == 0
}
