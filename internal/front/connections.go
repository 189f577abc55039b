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

// connections are those of a server, so that it bounds them: beyond the most that it
// keeps, the one that has had no request under way for longest is closed, whether it is
// idle or half a request was sent on it. Requests under way are never cut for others.
type connections struct {
	most int
	log  *slog.Logger

	mu      sync.Mutex
	open    map[net.Conn]*connection
	resting *list.List // of *connection without a request under way, the longest so first
	unasked int        // connections on which nothing has been asked yet
	closed  int        // closed for others since logged
	logged  time.Time
}

type connection struct {
	net.Conn

	asked   bool
	running int           // requests under way; many over HTTP/2
	resting *list.Element // nil while one is
}

// mostConnections is how many are kept unless somebody says otherwise: as many as leave
// a quarter of the files that the process may open to its database and everything else.
func mostConnections() int {
	const most, fallback = 50_000, 768
	var files syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files) != nil {
		return fallback
	}
	return int(min(uint64(files.Cur)/4*3, most)) //nolint:unconvert // it is signed on some systems
}

func newConnections(most int, log *slog.Logger) *connections {
	if most <= 0 {
		most = mostConnections()
	}
	return &connections{most: most, log: log, open: map[net.Conn]*connection{}, resting: list.New()}
}

type connectionKey struct{}

// begin is the ConnContext of a server: net/http calls it for each new connection,
// before it takes the next.
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
	if len(c.open) > c.most { // requests are under way on all others
		c.drop(one)
	}
	return context.WithValue(ctx, connectionKey{}, one)
}

// connectionsEvery is how often the log reports closed connections.
const connectionsEvery = 10 * time.Second

func (c *connections) drop(one *connection) {
	c.forget(one)
	c.closed++
	if now := time.Now(); now.Sub(c.logged) >= connectionsEvery {
		c.log.Warn("too many connections: those that were idle longest are closed", "closed", c.closed, "limit", c.most)
		c.closed, c.logged = 0, now
	}
	conn := one.Conn
	if secure, is := conn.(*securedConn); is {
		conn = secure.NetConn() // the Close of TLS would wait for the other side
	}
	_ = conn.Close()
}

// forget is called with the lock held.
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

// changed is the ConnState of a server.
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

// request notes that a request has reached a handler; done that it was answered.
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

// unaskedPatience bounds the wait for a first request: browsers connect in advance.
const unaskedPatience = time.Second

// wait returns when something has been asked on every connection.
func (c *connections) wait(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, unaskedPatience)
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
