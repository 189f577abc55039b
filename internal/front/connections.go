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

// connections limits the connections of a server: beyond the limit, it closes the one that has been
// without an active request for longest, whether it is idle or has sent half a request. It never
// closes a connection with an active request.
type connections struct {
	most int
	log  *slog.Logger

	mu      sync.Mutex
	open    map[net.Conn]*connection
	resting *list.List // of *connection without an active request, longest first
	unasked int        // connections without any request so far
	closed  int        // closed over the limit since last logged
	logged  time.Time
}

type connection struct {
	net.Conn

	asked   bool
	running int           // active requests; several over HTTP/2
	resting *list.Element // nil while there are active requests
}

// mostConnections is the default limit: it leaves a quarter of the process's open file limit to the
// database and everything else.
func mostConnections() int {
	const most, fallback = 50_000, 768
	var files syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files) != nil {
		return fallback
	}
	return int(min(uint64(files.Cur)/4*3, most)) //nolint:unconvert // signed on some systems
}

func newConnections(most int, log *slog.Logger) *connections {
	if most <= 0 {
		most = mostConnections()
	}
	return &connections{most: most, log: log, open: map[net.Conn]*connection{}, resting: list.New()}
}

type connectionKey struct{}

// begin is the ConnContext of a server: net/http calls it for each new connection, before it
// accepts the next.
func (c *connections) begin(ctx context.Context, conn net.Conn) context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.open) >= c.most && c.resting.Len() > 0 {
		c.drop(c.resting.Front().Value.(*connection))
	}
	one := &connection{Conn: conn}
	c.open[conn] = one
	c.unasked++
	one.resting = c.resting.PushBack(one)
	if len(c.open) > c.most { // all others have active requests
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
		c.log.Warn("too many connections; closed the longest-idle ones", "closed", c.closed, "limit", c.most)
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
	c.rest(one, false)
}

func (c *connections) rest(one *connection, resting bool) {
	switch {
	case resting && one.resting == nil:
		one.resting = c.resting.PushBack(one)
	case !resting && one.resting != nil:
		c.resting.Remove(one.resting)
		one.resting = nil
	}
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
	one.running++
	c.rest(one, false)
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if one.running--; one.running == 0 && c.open[one.Conn] == one {
			c.rest(one, true)
		}
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
