package postgres_test

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
)

// cutter is a proxy between a store and its server that loses responses: the server has processed
// the request, and the store sees its connection end.
type cutter struct {
	listener net.Listener
	server   string        // guarded by mu
	rate     atomic.Uint64 // one of so many responses is lost; 0: none
	cuts     atomic.Int64
	down     atomic.Bool            // connections are refused
	dropAt   atomic.Pointer[string] // a request with this text never reaches the server: both sides see the connection end, and later ones are refused
	dropped  chan struct{}          // gets a value when that happens
	deliver  atomic.Bool            // the request does reach the server, but the response is lost
	silent   atomic.Bool            // nothing is forwarded any more, and nothing is closed
	ended    chan struct{}          // closed when the silent connections end
	ending   sync.Once
	answers  atomic.Int64 // how often a server was ready for the next query
	mu       sync.Mutex
	recorded *bytes.Buffer // all responses, when not nil
	wg       sync.WaitGroup
}

// startCutter returns it with the URL to use instead of serverURL.
func startCutter(t testing.TB, serverURL string) (*cutter, string) {
	t.Helper()
	u, err := url.Parse(serverURL)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cutter{listener: l, server: u.Host, dropped: make(chan struct{}, 1), ended: make(chan struct{})}
	c.wg.Go(c.accept)
	t.Cleanup(func() { _ = l.Close(); c.end(); c.wg.Wait() })
	u.Host = l.Addr().String()
	return c, u.String()
}

func (c *cutter) accept() {
	for {
		client, err := c.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", c.target())
		if err == nil && c.down.Load() {
			_ = server.Close()
			err = net.ErrClosed
		}
		if err != nil {
			_ = client.Close()
			continue
		}
		c.wg.Go(func() { c.pass(server, client, false) })
		c.wg.Go(func() { c.pass(client, server, true) })
	}
}

// pass copies data until it cuts the connection or either side ends it; then both are closed.
func (c *cutter) pass(to, from net.Conn, answers bool) {
	defer func() { _, _ = to.Close(), from.Close() }()
	buf := make([]byte, 64<<10)
	var done readiness
	for {
		n, err := from.Read(buf)
		if answers {
			c.answers.Add(done.count(buf[:n]))
		}
		if rate := c.rate.Load(); err == nil && answers && rate > 0 && rand.Uint64N(rate) == 0 {
			c.cuts.Add(1)
			return
		}
		if c.silent.Load() {
			<-c.ended
			return
		}
		if n > 0 {
			if answers {
				c.receive(buf[:n])
			} else if word := c.dropAt.Load(); word != nil && bytes.Contains(buf[:n], []byte(*word)) {
				c.dropAt.Store(nil)
				c.down.Store(true)
				if c.deliver.Load() {
					_, _ = to.Write(buf[:n])
				}
				c.dropped <- struct{}{}
				return
			}
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// redirect lets connections through again, to the given server.
func (c *cutter) redirect(t testing.TB, serverURL string) {
	t.Helper()
	u, err := url.Parse(serverURL)
	if err != nil {
		t.Fatal(err)
	}
	c.mu.Lock()
	c.server = u.Host
	c.mu.Unlock()
	c.down.Store(false)
}

// end closes the silent connections.
func (c *cutter) end() { c.ending.Do(func() { close(c.ended) }) }

func (c *cutter) target() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.server
}

func (c *cutter) receive(answer []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.recorded != nil {
		c.recorded.Write(answer)
	}
}

// record stores the server's responses until the returned function is called, which returns them.
func (c *cutter) record() func() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.recorded = &bytes.Buffer{}
	return func() string {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.recorded.String()
	}
}

// readiness finds the server's "ready for query" in a stream of its messages: a letter, and a
// length of four bytes that includes itself.
type readiness struct {
	head []byte
	skip int // remaining bytes of the message
}

func (r *readiness) count(b []byte) (n int64) {
	for len(b) > 0 {
		if r.skip > 0 {
			part := min(r.skip, len(b))
			r.skip, b = r.skip-part, b[part:]
			continue
		}
		part := min(5-len(r.head), len(b))
		r.head, b = append(r.head, b[:part]...), b[part:]
		if len(r.head) == 5 {
			if r.head[0] == 'Z' {
				n++
			}
			r.skip, r.head = int(binary.BigEndian.Uint32(r.head[1:]))-4, nil
		}
	}
	return n
}
