package pgtest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// durableEnv makes a supervisor run servers with fsync, for measurements. Without it, a crash of
// processes has the same effect.
const durableEnv = "BLOOM_PGTEST_DURABLE"

// clusterDB is the database of a Cluster.
const clusterDB = "bloom"

// Cluster is a PostgreSQL server for one test, which may crash and restart it and add a synchronous
// standby. Its methods fail the test, and must be called on the test's goroutine.
type Cluster struct {
	t       testing.TB
	s       *server
	standby string // its port
}

// NewCluster starts a cluster without a standby. It ends with the test.
func NewCluster(t testing.TB) *Cluster {
	t.Helper()
	return newCluster(t)
}

// NewDurableCluster starts a cluster with fsync, for measurements.
func NewDurableCluster(t testing.TB) *Cluster {
	t.Helper()
	return newCluster(t, durableEnv+"=1")
}

func newCluster(t testing.TB, settings ...string) *Cluster {
	t.Helper()
	s, err := startServer(settings...)
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	t.Cleanup(func() {
		if err := s.end(); err != nil {
			t.Errorf("pgtest: %v", err)
		}
	})
	c := &Cluster{t: t, s: s}
	c.must(s.exec("CREATE DATABASE " + clusterDB))
	return c
}

func (c *Cluster) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatalf("pgtest: %v", err)
	}
}

func (c *Cluster) order(text string) string {
	c.t.Helper()
	port, err := c.s.order(text)
	c.must(err)
	return port
}

// URL returns the URL of the primary's database.
func (c *Cluster) URL() string { return c.s.url(clusterDB) }

// StandbyURL returns the URL of the standby's database.
func (c *Cluster) StandbyURL() string { return (&server{port: c.standby}).url(clusterDB) }

// EitherURL returns a URL with both servers that connects to the writable one.
func (c *Cluster) EitherURL() string {
	return fmt.Sprintf("postgres://%s@127.0.0.1:%s,127.0.0.1:%s/%s?sslmode=disable&target_session_attrs=read-write&connect_timeout=3",
		dbUser, c.s.port, c.standby, clusterDB)
}

// Crash stops the primary immediately, without a checkpoint.
func (c *Cluster) Crash() { c.t.Helper(); c.order("stop " + primary + " immediate") }

// Stop shuts the primary down cleanly and closes its connections.
func (c *Cluster) Stop() { c.t.Helper(); c.order("stop " + primary + " fast") }

// Begin restarts the primary and waits until it answers.
func (c *Cluster) Begin() { c.t.Helper(); c.order("start " + primary) }

// AddStandby creates a standby of the primary and waits until replication is synchronous.
func (c *Cluster) AddStandby() {
	c.t.Helper()
	c.standby = c.order("standby")
	c.must(c.s.exec("ALTER SYSTEM SET synchronous_standby_names = '" + standby + "'"))
	c.must(c.s.exec("SELECT pg_reload_conf()"))
	c.until(c.s, `SELECT count(*) = 1 FROM pg_stat_replication WHERE sync_state = 'sync' AND state = 'streaming'`)
}

// CrashStandby stops the standby immediately.
func (c *Cluster) CrashStandby() { c.t.Helper(); c.order("stop " + standby + " immediate") }

// BeginStandby restarts the standby and waits until it answers.
func (c *Cluster) BeginStandby() { c.t.Helper(); c.order("start " + standby) }

// Promote promotes the standby to a writable primary.
func (c *Cluster) Promote() {
	c.t.Helper()
	c.must((&server{port: c.standby}).exec("SELECT pg_promote(true, 60)"))
}

// until repeats a query until it returns true.
func (c *Cluster) until(s *server, question string) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	conn, err := pgx.Connect(ctx, s.url("postgres"))
	c.must(err)
	defer conn.Close(ctx)
	for yes := false; !yes; time.Sleep(10 * time.Millisecond) {
		c.must(conn.QueryRow(ctx, question).Scan(&yes))
	}
}
