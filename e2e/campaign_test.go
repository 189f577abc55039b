package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/pgtest"
)

// doses of the campaign. The full one, with E2E_CAMPAIGN=full, takes two minutes.
var doses = map[string]dose{
	"":     {tasks: 120, restarts: 1, pace: 20, start: pgtest.NewCluster},
	"full": {tasks: 2000, restarts: 3, pace: 20, start: pgtest.NewDurableCluster},
}

type dose struct {
	tasks, restarts int
	pace            int // tasks posted a second
	start           func(testing.TB) *pgtest.Cluster
}

// TestTheCampaign lets clients post tasks to two replicas over one PostgreSQL, and
// four workers work on them, while the replicas are killed with SIGKILL and
// started again at random moments and PostgreSQL is restarted, now as by a power
// cut and now in order. Every task that a client was told of must end once, the
// audit must replay to the state, and no lease may be left. It reports how long
// each recovery took. The figures in docs/operations/postgresql.md are those of
// E2E_CAMPAIGN=full go test ./e2e -run TestTheCampaign -count=1 -v -timeout 15m.
func TestTheCampaign(t *testing.T) {
	t.Parallel()
	how, known := doses[os.Getenv("E2E_CAMPAIGN")]
	if !known {
		t.Fatal(`E2E_CAMPAIGN is "full" or not set`)
	}
	random := seeded(t)
	cluster, front := how.start(t), newBalancer(t) // before the house, to outlive it
	h := newHouse(t)
	h.front = front
	c := &campaign{house: h, how: how, cluster: cluster, replicas: h.replicas(2, cluster.URL()), created: map[string]string{}}
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
	var crew sync.WaitGroup
	crew.Go(func() { defer close(posted); c.post(t) })
	c.trouble(random, posted)
	crew.Wait()
	c.settle(t)
	t.Logf("%d tasks in %s", how.tasks, time.Since(started).Round(time.Millisecond))
	c.verify(t, runs)
	c.report(t)
}

// campaign is what happened, as seen from outside.
type campaign struct {
	*house
	how      dose
	cluster  *pgtest.Cluster
	replicas []*replica
	given    atomic.Int64 // tasks acknowledged so far

	mu      sync.Mutex
	created map[string]string // acknowledged: the task's id → the word it must say
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
	at      time.Time // of the blow
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

// trouble kills and restarts until everything is posted. PostgreSQL's turns are
// spread evenly over the tasks.
func (c *campaign) trouble(random *rand.Rand, posted <-chan struct{}) {
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
	time.Sleep(time.Duration(random.IntN(1500)) * time.Millisecond) // how long it is away
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

// settle waits until nothing is waiting or held any more.
func (c *campaign) settle(t *testing.T) {
	t.Helper()
	eventually(t, "every task has ended", func() bool {
		s, err := c.api.Stats(t.Context())
		open := s.Tasks.ByStatus[bloom.TaskQueued] + s.Tasks.ByStatus[bloom.TaskLeased] + s.Tasks.ByStatus[bloom.TaskRunning]
		return err == nil && s.Tasks.Total > 0 && open == 0
	})
}

// verify holds what the clients were told against what there is. The invariants,
// the replay of the audit among them, are checked when the house is closed.
func (c *campaign) verify(t *testing.T, runs string) {
	t.Helper()
	if len(c.created) != c.how.tasks {
		t.Errorf("%d tasks were acknowledged under different ids, %d were posted", len(c.created), c.how.tasks)
	}
	stats, err := c.api.Stats(t.Context())
	if err != nil || int(stats.Tasks.Total) != c.how.tasks || int(stats.Tasks.ByStatus[bloom.TaskCompleted]) != c.how.tasks || stats.Leases.Active != 0 {
		t.Errorf("stats = %s, %v; want %d completed tasks and no active lease", bloom.MustJSON(stats), err, c.how.tasks)
	}
	for id, word := range c.created {
		results, err := c.api.Results(t.Context(), id)
		ended := slices.DeleteFunc(results, func(r bloom.Result) bool { return r.Status != bloom.OutcomeSuccess })
		if err != nil || len(ended) != 1 || ended[0].Output == nil || *ended[0].Output != word {
			t.Errorf("task %s has the outcomes %s, %v; want %q once", id, bloom.MustJSON(ended), err, word)
		}
	}
	log, err := os.ReadFile(runs)
	if err != nil {
		t.Fatal(err)
	}
	words := strings.Fields(string(log))
	again := len(words) - len(slices.Compact(slices.Sorted(slices.Values(words))))
	t.Logf("%d tasks acknowledged, %d leases, %d runs of which %d were not the task's first", len(c.created), stats.Leases.Total, len(words), again)
}

// report tells how long each fault was felt: by clients who create, and by workers
// who claim, from the blow (for PostgreSQL: from its return) to the first success.
func (c *campaign) report(t *testing.T) {
	t.Helper()
	var claims []time.Time
	for entry, err := range c.api.AllAudit(t.Context(), bloom.AuditQuery{Action: bloom.ActionTaskLeased}) {
		if err != nil {
			t.Fatal(err)
		}
		claims = append(claims, time.UnixMilli(entry.Timestamp))
	}
	slices.SortFunc(claims, time.Time.Compare)
	felt := map[string]*[3][]time.Duration{}
	for _, f := range c.faults {
		if felt[f.kind] == nil {
			felt[f.kind] = &[3][]time.Duration{}
		}
		from := f.at
		if f.replica < 0 {
			from = f.back
		}
		of := felt[f.kind]
		of[0] = append(of[0], f.back.Sub(f.at))
		if i := slices.IndexFunc(c.success, func(m moment) bool { return m.at.After(from) && m.replica != f.replica }); i >= 0 {
			of[1] = append(of[1], c.success[i].at.Sub(from))
		}
		if i := slices.IndexFunc(claims, from.Before); i >= 0 {
			of[2] = append(of[2], claims[i].Sub(from))
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n%-28s %5s  %-22s %-22s %s\n", "fault", "times", "away p50/max", "next create p50/max", "next claim p50/max")
	for _, kind := range slices.Sorted(maps.Keys(felt)) {
		of := felt[kind]
		fmt.Fprintf(&b, "%-28s %5d  %-22s %-22s %s\n", kind, len(of[0]), spread(of[0]), spread(of[1]), spread(of[2]))
	}
	t.Log(b.String())
}

func spread(d []time.Duration) string {
	if len(d) == 0 {
		return "never"
	}
	slices.Sort(d)
	return fmt.Sprintf("%s / %s", d[len(d)/2].Round(time.Millisecond), d[len(d)-1].Round(time.Millisecond))
}
