package e2e_test

import (
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom/client"
	"github.com/bloom-runtime/bloom/internal/porttest"
)

// replica is one of several servers over one database. After a kill it is restarted at the same
// address.
type replica struct {
	h        *harness
	n        int
	address  string
	database string
	args     []string
	program  string         // its binary; "" is the one under test
	api      *client.Client // without retries, so that callers can switch replicas
	proc     *proc
}

// replicas prepares servers over one database; none is started. The harness's address becomes that
// of a balancer in front of them, which workers use, too.
func (h *harness) replicas(n int, database string, args ...string) []*replica {
	h.t.Helper()
	all := make([]*replica, n)
	addresses := make([]string, n)
	for i := range all {
		addresses[i] = porttest.Address(h.t)
		api, err := client.New("http://"+addresses[i], client.Options{APIKey: adminKey, Retry: client.NoRetry, Timeout: 15 * time.Second})
		if err != nil {
			h.t.Fatal(err)
		}
		h.t.Cleanup(api.Close)
		all[i] = &replica{h: h, n: i, address: addresses[i], database: database, args: args, api: api}
	}
	h.front.to(addresses)
	h.url = "http://" + h.front.address()
	api, err := client.New(h.url, client.Options{APIKey: adminKey, Retry: client.Retry{Tries: 60, Max: 500 * time.Millisecond}})
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(api.Close)
	h.api = api
	return all
}

// begin starts the replica and waits until it listens.
func (r *replica) begin() {
	r.h.t.Helper()
	r.proc = spawnAs(r.h.t, r.program, "replica "+strconv.Itoa(r.n), r.h.env("RUNTIME_API_KEY="+adminKey, "RUNTIME_WORKER_KEY="+workerKey, "DATABASE_URL="+r.database),
		append([]string{
			"server", "--data-dir", filepath.Join(r.h.dir, "replica-"+strconv.Itoa(r.n)), "--listen", r.address, "--reap-interval", "250ms",
		}, r.args...)...)
	r.h.servers = append(r.h.servers, r.proc)
	r.proc.says("listens at")
}

// balancer forwards connections to any server that accepts them, like a proxy in front of several
// replicas.
type balancer struct {
	listener net.Listener
	wg       sync.WaitGroup
	turn     atomic.Uint64
	mu       sync.Mutex
	servers  []string
	open     map[net.Conn]bool
}

// newBalancer starts one. Create it before the harness that uses it, so that it outlives it.
func newBalancer(t *testing.T) *balancer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &balancer{listener: l, open: map[net.Conn]bool{}}
	b.wg.Go(b.accept)
	t.Cleanup(func() {
		_ = l.Close()
		b.cut()
		b.wg.Wait()
	})
	return b
}

func (b *balancer) address() string { return b.listener.Addr().String() }

func (b *balancer) to(servers []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.servers = servers
}

// cut closes the open connections.
func (b *balancer) cut() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for c := range b.open {
		_ = c.Close()
	}
}

func (b *balancer) accept() {
	for {
		c, err := b.listener.Accept()
		if err != nil {
			return
		}
		if s := b.dial(); s != nil && b.keep(c) && b.keep(s) {
			b.wg.Go(func() { b.pass(s, c) })
			b.wg.Go(func() { b.pass(c, s) })
		} else {
			_ = c.Close()
		}
	}
}

// dial tries every server once, each time starting with another one.
func (b *balancer) dial() net.Conn {
	b.mu.Lock()
	servers := b.servers
	b.mu.Unlock()
	first := int(b.turn.Add(1))
	for i := range servers {
		c, err := new(net.Dialer).DialContext(context.Background(), "tcp", servers[(first+i)%len(servers)])
		if err == nil {
			return c
		}
	}
	return nil
}

func (b *balancer) keep(c net.Conn) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.open[c] = true
	return true
}

func (b *balancer) pass(to, from net.Conn) {
	_, _ = io.Copy(to, from)
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range []net.Conn{to, from} {
		_ = c.Close()
		delete(b.open, c)
	}
}

// quickClaude writes a command line that immediately answers what the prompt asks for, and records
// each run in a file.
func quickClaude(t *testing.T, runs string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "claude")
	const session = "11111111-1111-4111-8111-111111111111"
	file(t, path, strings.Join([]string{
		"#!/bin/sh",
		`case "$1" in --version) echo "2.1.197 (Claude Code)"; exit 0;; auth) echo '{"loggedIn":true,"authMethod":"api_key"}'; exit 0;; esac`,
		`word=$(sed -n 's/.*say \(done-[0-9]*\);.*/\1/p' | tail -n 1)`,
		`echo "$word" >>'` + runs + `'`,
		`word=${word:-done}`,
		`echo '{"type":"system","subtype":"init","session_id":"` + session + `","tools":[]}'`,
		`echo '{"type":"result","subtype":"success","is_error":false,"result":"'"$word"'","session_id":"` + session +
			`","num_turns":1,"duration_ms":5,"usage":{"input_tokens":1,"output_tokens":1}}'`,
		"",
	}, "\n"))
	if err := os.Chmod(path, 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}
