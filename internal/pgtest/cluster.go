package pgtest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// durableEnv tells a supervisor to run servers as in earnest, with fsync: for
// figures. What a crash of processes does is the same without.
const durableEnv = "BLOOM_PGTEST_DURABLE"

// clusterDB is the database of a Cluster.
const clusterDB = "bloom"

// Cluster is a PostgreSQL of one test alone, which it may crash and start again,
// and which may get a synchronous standby. Its methods fail the test, and are to
// be called by the test's own goroutine.
type Cluster struct {
	t       testing.TB
	s       *server
	standby string // its port
}

// NewCluster starts one, without a standby. It ends with the test.
func NewCluster(t testing.TB) *Cluster {
	t.Helper()
	return newCluster(t)
}

// NewDurableCluster starts one that syncs to disk, for measurements.
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

// URL is the address of the primary's database.
func (c *Cluster) URL() string { return c.s.url(clusterDB) }

// StandbyURL is the same of the standby's.
func (c *Cluster) StandbyURL() string { return (&server{port: c.standby}).url(clusterDB) }

// EitherURL names both servers and takes the first that can be written to.
func (c *Cluster) EitherURL() string {
	return fmt.Sprintf("postgres://%s@127.0.0.1:%s,127.0.0.1:%s/%s?sslmode=disable&target_session_attrs=read-write&connect_timeout=3",
		dbUser, c.s.port, c.standby, clusterDB)
}

// Crash ends the primary as a power cut would: nothing is written down.
func (c *Cluster) Crash() { c.t.Helper(); c.order("stop " + primary + " immediate") }

// Stop ends the primary in order, cutting its connections.
func (c *Cluster) Stop() { c.t.Helper(); c.order("stop " + primary + " fast") }

// Begin starts the primary again and waits until it answers.
func (c *Cluster) Begin() { c.t.Helper(); c.order("start " + primary) }

// AddStandby makes a standby of the primary and waits until the primary's commits
// wait for it.
func (c *Cluster) AddStandby() {
	c.t.Helper()
	c.standby = c.order("standby")
	c.must(c.s.exec("ALTER SYSTEM SET synchronous_standby_names = '" + standby + "'"))
	c.must(c.s.exec("SELECT pg_reload_conf()"))
	c.until(c.s, `SELECT count(*) = 1 FROM pg_stat_replication WHERE sync_state = 'sync' AND state = 'streaming'`)
}

// CrashStandby ends the standby as a power cut would.
func (c *Cluster) CrashStandby() { c.t.Helper(); c.order("stop " + standby + " immediate") }

// BeginStandby starts the standby again and waits until it answers.
func (c *Cluster) BeginStandby() { c.t.Helper(); c.order("start " + standby) }

// Promote makes the standby a server of its own that can be written to.
func (c *Cluster) Promote() {
	c.t.Helper()
	c.must((&server{port: c.standby}).exec("SELECT pg_promote(true, 60)"))
}

// until asks a server until it says yes.
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
