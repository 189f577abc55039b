// Package pgtest provides tests with a temporary PostgreSQL server. Each test binary starts one, on a
// free loopback port and in a temporary folder, from the binaries installed on the machine; every
// test gets its own empty database.
//
// The server never outlives the test binary, not even one that was killed with
// SIGKILL: it is the child of a supervisor (the test binary, executed again) that watches a pipe held
// only by the test binary. When the pipe closes, the supervisor stops the server and removes its
// folder.
//
// The package installs nothing. It is for tests only and must never be imported
// by the product.
package pgtest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// startLimit bounds how long the server may take to come up. Creating the
// cluster takes about a second; a loaded machine needs more.
const startLimit = 5 * time.Minute

var (
	once      sync.Once
	shared    *server
	sharedErr error
	databases atomic.Int64
)

// Start returns the connection URL of a new, empty database that belongs to this
// test alone and is dropped after it. The first call of a test binary starts the
// server. It fails the test, saying what to do, when PostgreSQL is not installed.
func Start(t testing.TB) string {
	t.Helper()
	return start(t, "")
}

// Template is a database that Prepare fills once per test binary. Tests start with a copy of it,
// which takes a fraction of the time of the migrations.
type Template struct {
	Prepare func(url string) error

	once sync.Once
	name string
	err  error
}

// Start is like the function Start, with a copy of the prepared database.
func (p *Template) Start(t testing.TB) string {
	t.Helper()
	p.once.Do(func() { p.err = p.make(t) })
	if p.err != nil {
		t.Fatalf("pgtest: template: %v", p.err)
	}
	return start(t, " TEMPLATE "+p.name)
}

// make creates the database and forbids connections to it, so that it can be copied at any time.
func (p *Template) make(t testing.TB) error {
	t.Helper()
	s := sharedServer(t)
	p.name = fmt.Sprintf("filled%d", databases.Add(1))
	if err := s.exec("CREATE DATABASE " + p.name); err != nil {
		return err
	}
	if err := p.Prepare(s.url(p.name)); err != nil {
		return err
	}
	return s.exec("ALTER DATABASE " + p.name + " ALLOW_CONNECTIONS false")
}

func sharedServer(t testing.TB) *server {
	t.Helper()
	once.Do(func() { shared, sharedErr = startServer() })
	if sharedErr != nil {
		t.Fatalf("pgtest: %v", sharedErr)
	}
	return shared
}

func start(t testing.TB, template string) string {
	t.Helper()
	shared := sharedServer(t)
	name := fmt.Sprintf("t%d", databases.Add(1))
	if err := shared.exec("CREATE DATABASE " + name + template); err != nil {
		t.Fatalf("pgtest: create database: %v", err)
	}
	t.Cleanup(func() {
		// FORCE, so that a pool that the test forgot to close does not block it.
		if err := shared.exec("DROP DATABASE IF EXISTS " + name + " WITH (FORCE)"); err != nil {
			t.Errorf("pgtest: drop database: %v", err)
		}
	})
	return shared.url(name)
}

// exec runs one statement in the maintenance database, on its own connection: it is rarely called,
// and an idle pool would look like a leak.
func (s *server) exec(statement string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, s.url("postgres"))
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, statement)
	return err
}
