package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/pgtest"
)

// intensities of the campaign. The full one, with E2E_CAMPAIGN=full, takes two minutes.
var intensities = map[string]intensity{
	"":     {tasks: 120, restarts: 1, pace: 20, start: pgtest.NewCluster},
	"full": {tasks: 2000, restarts: 3, pace: 20, start: pgtest.NewDurableCluster},
}

type intensity struct {
	tasks, restarts int
	pace            int // tasks posted a second
	start           func(testing.TB) *pgtest.Cluster
}

// TestTheCampaign has clients post tasks to two replicas over one PostgreSQL, with four workers,
// while at random moments the replicas are killed with SIGKILL and restarted and PostgreSQL is
// restarted, as after a power failure or in order. Every acknowledged task must end once, the audit
// must replay to the state, and no lease may remain. The test reports how long each recovery took.
// The numbers in docs/development/measurements.md are from E2E_CAMPAIGN=full go test ./e2e -run
// TestTheCampaign -count=1 -v -timeout 15m.
func TestTheCampaign(t *testing.T) {
	t.Parallel()
	how, known := intensities[os.Getenv("E2E_CAMPAIGN")]
	if !known {
		t.Fatal(`E2E_CAMPAIGN is "full" or not set`)
	}
	random := seeded(t)
	cluster, front := how.start(t), newBalancer(t) // before the harness, to outlive it
	h := newHarness(t)
	h.front = front
	c := &campaign{harness: h, how: how, cluster: cluster, replicas: h.replicas(2, cluster.URL()), created: map[string]string{}}
	for _, r := range c.replicas {
		r.begin()
	}
	runs := filepath.Join(h.dir, "runs")
	claude := quickClaude(t, runs)
	for i := range 4 {
		h.work(workerOptions{name: fmt.Sprint("worker-", i), claude: claude, args: []string{"--max-concurrency", "4", "--lease-ttl", "30s"}})
	}
	started := time.Now()
	posted := make(chan struct{})
	var wait sync.WaitGroup
	wait.Go(func() { defer close(posted); c.post(t) })
	c.injectFaults(random, posted)
	wait.Wait()
	c.settle(t)
	t.Logf("%d tasks in %s", how.tasks, time.Since(started).Round(time.Millisecond))
	c.verify(t, runs)
	c.report(t)
}

// campaign records what happened, as seen from outside.
type campaign struct {
	*harness
	how      intensity
	cluster  *pgtest.Cluster
	replicas []*replica
	given    atomic.Int64 // tasks acknowledged so far

	mu      sync.Mutex
	created map[string]string // acknowledged: the task's id → the word it must output
	success []moment          // of creations
	faults  []fault
}

// moment is when a replica acknowledged a creation.
type moment struct {
	at      time.Time
	replica int
}

type fault struct {
	kind    string
	at      time.Time // when it was injected
	back    time.Time // when it answered again
	replica int       // that was killed; -1: it was PostgreSQL
}

// post has clients post all tasks at the campaign's pace.
func (c *campaign) post(t *testing.T) {
	pace := time.NewTicker(time.Second / time.Duration(c.how.pace))
	defer pace.Stop()
	work := make(chan int)
	var clients sync.WaitGroup
	for range 8 {
		clients.Go(func() {
			for n := range work {
				c.postOne(t, n)
			}
		})
	}
	for n := range c.how.tasks {
		<-pace.C
		work <- n
	}
	close(work)
	clients.Wait()
}

// postOne posts one task at either replica until one of them acknowledges it.
func (c *campaign) postOne(t *testing.T, n int) {
	word := fmt.Sprintf("done-%d", n)
	spec := bloom.TaskSpec{
		ContextID: fmt.Sprint("context ", n%50), AgentSlug: "assistant", Prompt: "say " + word + "; and nothing else",
		IdempotencyKey: fmt.Sprint("campaign-", n), MaxAttempts: 10, Policy: bloom.Policy{TimeoutSec: 60},
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	for try := n; ; try++ {
		r := c.replicas[try%len(c.replicas)]
		task, err := r.api.Submit(ctx, spec)
		if err == nil {
			c.acknowledged(task.ID, word, r.n)
			return
		}
		if ctx.Err() != nil || errors.Is(err, bloom.ErrIdempotency) {
			t.Errorf("task %d was not taken: %v", n, err)
			return
		}
		time.Sleep(20 * time.Millisecond) // a client's own pause, not a wait for something
	}
}

func (c *campaign) acknowledged(id, word string, replica int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.created[id] = word
	c.success = append(c.success, moment{time.Now(), replica})
	c.given.Add(1)
}

// injectFaults kills and restarts servers until everything is posted. The restarts of PostgreSQL are
// spread evenly over the tasks.
func (c *campaign) injectFaults(random *rand.Rand, posted <-chan struct{}) {
	restarts := 0
	for {
		select {
		case <-posted:
			return
		case <-time.After(time.Duration(500+random.IntN(2500)) * time.Millisecond): // the fault's moment
		}
		due := c.how.tasks * (restarts + 1) / (c.how.restarts + 1)
		if restarts < c.how.restarts && int(c.given.Load()) >= due {
			c.restartDatabase(restarts%2 == 0)
			restarts++
			continue
		}
		c.killReplica(random)
	}
}

func (c *campaign) killReplica(random *rand.Rand) {
	r := c.replicas[random.IntN(len(c.replicas))]
	f := fault{kind: "kill -9 of a replica", at: time.Now(), replica: r.n}
	r.proc.kill()
	time.Sleep(time.Duration(random.IntN(1500)) * time.Millisecond) // how long it is down
	r.begin()
	f.back = time.Now()
	c.note(f)
}

func (c *campaign) restartDatabase(crash bool) {
	f := fault{kind: "PostgreSQL stopped in order", at: time.Now(), replica: -1}
	if crash {
		f.kind = "PostgreSQL crashed"
		c.cluster.Crash()
	} else {
		c.cluster.Stop()
	}
	c.cluster.Begin()
	f.back = time.Now()
	c.note(f)
}

func (c *campaign) note(f fault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults = append(c.faults, f)
}

// settle waits until no task is waiting or leased.
func (c *campaign) settle(t *testing.T) {
	t.Helper()
	eventually(t, "every task has ended", func() bool {
		s, err := c.api.Stats(t.Context())
		open := s.Tasks.ByStatus[bloom.TaskQueued] + s.Tasks.ByStatus[bloom.TaskLeased] + s.Tasks.ByStatus[bloom.TaskRunning]
		return err == nil && s.Tasks.Total > 0 && open == 0
	})
}
