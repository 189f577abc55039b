package e2e_test

import (
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom/internal/pgtest"
)

// TestTheStandbyIsPromotedUnderTwoServers crashes the primary under load on two servers, promotes
// its synchronous standby, and lets the old primary return unchanged. Neither servers nor workers
// are restarted, and every acknowledged task ends once.
func TestTheStandbyIsPromotedUnderTwoServers(t *testing.T) {
	t.Parallel()
	cluster, front := pgtest.NewCluster(t), newBalancer(t) // before the harness, to outlive it
	cluster.AddStandby()
	h := newHarness(t)
	h.front = front
	c := &campaign{harness: h, how: intensity{tasks: 100, pace: 20}, cluster: cluster, replicas: h.replicas(2, cluster.EitherURL()), created: map[string]string{}}
	for _, r := range c.replicas {
		r.begin()
	}
	runs := filepath.Join(h.dir, "runs")
	claude := quickClaude(t, runs)
	for i := range 2 {
		h.work(workerOptions{name: fmt.Sprint("worker-", i), claude: claude, args: []string{"--max-concurrency", "4", "--lease-ttl", "30s"}})
	}
	var wait sync.WaitGroup
	wait.Go(func() { c.post(t) })
	eventually(t, "a third is posted", func() bool { return c.given.Load() >= 33 })
	f := fault{kind: "the standby is promoted", at: time.Now(), replica: -1}
	cluster.Crash()
	cluster.Promote()
	f.back = time.Now()
	c.note(f)
	eventually(t, "another third is posted", func() bool { return c.given.Load() >= 66 })
	cluster.Begin() // the old primary, as if nothing had happened
	wait.Wait()
	c.settle(t)
	c.verify(t, runs)
	c.report(t)
}
