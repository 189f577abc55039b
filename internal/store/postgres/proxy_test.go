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

// cutter stands between a store and its server and swallows answers: the server
// has done what it was asked, the store sees its connection end.
type cutter struct {
	listener net.Listener
	server   string        // guarded by mu
	rate     atomic.Uint64 // one answer in so many is swallowed; 0: none
	cuts     atomic.Int64
	away     atomic.Bool            // connections are refused
	deaf     atomic.Pointer[string] // what holds this never reaches the server: both sides see an end, and it is away
	deafened chan struct{}          // gets a value then
	deliver  atomic.Bool            // it does reach the server, whose answer is lost
	silent   atomic.Bool            // nothing passes any more, and nothing is closed
	ended    chan struct{}          // closed when even that is over
	ending   sync.Once
	answers  atomic.Int64 // how often a server was done with what it was asked
	mu       sync.Mutex
	heard    *bytes.Buffer // all answers, when not nil
	wg       sync.WaitGroup
}

// startCutter returns it with the address to use in place of serverURL.
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
	c := &cutter{listener: l, server: u.Host, deafened: make(chan struct{}, 1), ended: make(chan struct{})}
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
		if err == nil && c.away.Load() {
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

// pass copies what comes until it cuts or either side ends; both are closed then.
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
				c.hear(buf[:n])
			} else if word := c.deaf.Load(); word != nil && bytes.Contains(buf[:n], []byte(*word)) {
				c.deaf.Store(nil)
				c.away.Store(true)
				if c.deliver.Load() {
					_, _ = to.Write(buf[:n])
				}
				c.deafened <- struct{}{}
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
	c.away.Store(false)
}

// end closes the connections that had fallen silent.
func (c *cutter) end() { c.ending.Do(func() { close(c.ended) }) }

func (c *cutter) target() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.server
}

func (c *cutter) hear(answer []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.heard != nil {
		c.heard.Write(answer)
	}
}

// record keeps what the server answers from now on, until the returned function
// is called for it.
func (c *cutter) record() func() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.heard = &bytes.Buffer{}
	return func() string {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.heard.String()
	}
}

// readiness finds the server's "ready for query" in a stream of its messages: a
// letter, and a length of four bytes that counts itself.
type readiness struct {
	head []byte
	skip int // bytes of the message that are still to come
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
