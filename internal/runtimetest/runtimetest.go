// Package runtimetest provides tests with a runtime on a real store and a real listener, which they
// can stop, restart at the same address, and make fail.
package runtimetest

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/client"
	"github.com/bloom-runtime/bloom/internal/auth"
	"github.com/bloom-runtime/bloom/internal/blob/local"
	"github.com/bloom-runtime/bloom/internal/dispatch"
	"github.com/bloom-runtime/bloom/internal/httpapi"
	"github.com/bloom-runtime/bloom/internal/porttest"
	"github.com/bloom-runtime/bloom/internal/store/sqlite"
	"github.com/bloom-runtime/bloom/internal/timing"
)

// AdminKey has the role admin.
const AdminKey = "admin-key-of-the-test-runtime"

// Intercept may answer a request itself; it reports whether it did.
type Intercept func(http.ResponseWriter, *http.Request) bool

// Runtime is a server for tests.
type Runtime struct {
	URL     string
	Store   *sqlite.Store
	Service *dispatch.Service

	t      testing.TB
	dir    string
	addr   string
	blobs  *local.Store
	http   *http.Server
	up     bool
	before atomic.Pointer[Intercept]
}

// Start runs a runtime until the test ends.
func Start(t testing.TB) *Runtime {
	t.Helper()
	r := &Runtime{t: t, dir: t.TempDir(), addr: porttest.Address(t)}
	t.Cleanup(r.Down)
	r.Up()
	return r
}

// Intercept calls f before each request; nil removes it.
func (r *Runtime) Intercept(f Intercept) {
	if f == nil {
		r.before.Store(nil)
		return
	}
	r.before.Store(&f)
}

// Client returns a client with the admin key.
func (r *Runtime) Client() *client.Client {
	r.t.Helper()
	c, err := client.New(r.URL, client.Options{APIKey: AdminKey})
	r.must(err)
	r.t.Cleanup(c.Close)
	return c
}

// Up starts the runtime, at the same address as before.
func (r *Runtime) Up() {
	r.t.Helper()
	ctx := context.Background()
	logger := slog.New(slog.DiscardHandler)
	var err error
	r.Store, err = sqlite.Open(ctx, sqlite.Config{Path: filepath.Join(r.dir, "bloom.db"), Logger: logger})
	r.must(err)
	r.blobs, err = local.Open(filepath.Join(r.dir, "artifacts"), "")
	r.must(err)
	sealer, err := auth.OpenSealer(filepath.Join(r.dir, auth.SealKeyFile))
	r.must(err)
	r.Service, err = dispatch.New(ctx, dispatch.Config{MaxFile: 64 << 20, MaxAttachments: 1 << 20, TempDir: r.dir, Store: r.Store, Blobs: r.blobs, Seal: sealer, Logger: logger, Poll: 500 * time.Millisecond})
	r.must(err)
	keys, err := auth.New(auth.Config{AdminKey: AdminKey, LoopbackOnly: true})
	r.must(err)
	r.must(keys.Open(ctx, r.Store, sealer, timing.System{}))
	api := httpapi.New(httpapi.Config{Service: r.Service, Store: r.Store, Auth: keys, Logger: logger, Version: "test"})
	listener, err := net.Listen("tcp", r.addr)
	r.must(err)
	r.URL = "http://" + r.addr
	r.http = &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if f := r.before.Load(); f != nil && (*f)(w, q) {
			return
		}
		api.ServeHTTP(w, q)
	})}
	server := r.http
	go func() { _ = server.Serve(listener) }()
	r.up = true
}

// Down closes all connections and stops the runtime; acknowledged data remains.
func (r *Runtime) Down() {
	if !r.up {
		return
	}
	r.up = false
	_ = r.http.Close()
	r.Service.Close()
	_ = r.Store.Close()
	_ = r.blobs.Close()
}

// Submit queues a task of the given context.
func (r *Runtime) Submit(contextID, prompt string) bloom.Task {
	r.t.Helper()
	task, err := r.Client().Submit(context.Background(), bloom.TaskSpec{ContextID: contextID, AgentSlug: "tester", Prompt: prompt})
	r.must(err)
	return task
}

func (r *Runtime) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}
