package e2e_test

import (
	"bytes"
	"errors"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/pgtest"
)

// agedBatch is how many tasks grow old at once: ten batches of a removal.
const agedBatch = 500

// moments are how long after the first removal a server is killed, at most: at once, in the middle,
// while files are deleted.
var moments = []time.Duration{30 * time.Millisecond, 200 * time.Millisecond, 800 * time.Millisecond}

// leftOver counts what a finished run leaves only when something went wrong: old entries other than
// the last task of a live context, and files that nothing refers to.
const leftOver = `SELECT (SELECT count(*) FROM removed_contents) + (SELECT count(*) FROM llm_tasks t
	WHERE t.status IN ('completed','failed','dead','cancelled') AND t.updated_at < (extract(epoch FROM now()) * 1000)::bigint - 3600000
		AND NOT (t.id = (SELECT l.task_id FROM leases l WHERE l.context_id = t.context_id ORDER BY l.seq DESC LIMIT 1)
			AND EXISTS (SELECT FROM llm_tasks x WHERE x.context_id = t.context_id AND x.status IN ('queued','leased','running'))))`

// violations are queries that count violations.
var violations = []string{
	leftOver,
	`SELECT count(*) FROM task_events WHERE task NOT IN (SELECT seq FROM llm_tasks)`,
	`SELECT count(*) FROM leases WHERE task_id NOT IN (SELECT id FROM llm_tasks)`,
	`SELECT count(*) FROM llm_results WHERE task_id NOT IN (SELECT id FROM llm_tasks)`,
	`SELECT count(*) FROM runtime_artifacts WHERE task_id NOT IN (SELECT id FROM llm_tasks)`,
	`SELECT count(*) FROM llm_results WHERE artifact_id NOT IN (SELECT id FROM runtime_artifacts)`,
	// A live context without a worker that knows it.
	`SELECT count(*) FROM llm_tasks t WHERE t.context_id LIKE 'living %' AND NOT EXISTS (SELECT FROM contexts c WHERE c.id = t.context_id AND c.worker_id <> '')`,
	`SELECT count(*) FROM (SELECT sum(queued)::bigint, sum(leased)::bigint, sum(running)::bigint, sum(completed)::bigint, sum(failed)::bigint, sum(leases)::bigint, sum(active)::bigint FROM counters) AS recorded
		WHERE recorded IS DISTINCT FROM (SELECT row(count(*) FILTER (WHERE status = 'queued'), count(*) FILTER (WHERE status = 'leased'), count(*) FILTER (WHERE status = 'running'),
			count(*) FILTER (WHERE status = 'completed'), count(*) FILTER (WHERE status = 'failed'),
			(SELECT count(*) FROM leases), (SELECT count(*) FROM leases WHERE status = 'active')) FROM llm_tasks)`,
}

// TestAServerIsKilledWhileItRemoves ages tasks in a database that two servers share, and repeatedly
// kills the one that removes them at a random moment, while people requeue some of them. The other
// one must take over and finish: nothing remains of what had to be removed, on disk neither, and
// everything else is unchanged.
func TestAServerIsKilledWhileItRemoves(t *testing.T) {
	t.Parallel()
	random := seeded(t)
	rounds := 4
	if os.Getenv("E2E_CAMPAIGN") == "full" {
		rounds = 20
	}
	url, front := pgtest.Start(t), newBalancer(t)
	h := newHarness(t)
	h.front = front
	a := newArchive(t, h, url, rounds)
	a.replicas = h.replicas(2, url, "--retention-tasks", "1h", "--retention-audit", "1h")
	began := time.Now()
	for _, r := range a.replicas {
		r.begin()
	}
	a.settled(began)
	for i := range rounds {
		a.age(i)
		stop := a.requeueSome(random, i)
		// The server that takes over from a killed one removes immediately.
		worker := a.handOver()
		if moment := time.Duration(random.Int64N(int64(moments[i%len(moments)]))); i < rounds-1 || a.midst > 0 { // else at once
			time.Sleep(moment) // the fault's moment, not a wait for something
		}
		at := time.Now()
		worker.proc.kill()
		left := a.count(leftOver)
		a.settled(at) // by the remaining server
		if left > 0 {
			a.midst++
		}
		worker.begin()
		stop()
		a.settled(at)
		a.verify()
	}
	t.Logf("%d of %d kills were in the middle of a removal; %d people's requeues came first or were cut", a.midst, rounds, len(a.requeued))
	if a.midst == 0 {
		t.Error("no kill was in the middle of a removal: the test proves nothing")
	}
}

// requeueSome requeues single failed tasks of a batch until the returned function is called.
func (a *archive) requeueSome(random *rand.Rand, batch int) (stop func()) {
	var failed []string
	for n := 0; n < agedBatch; n += 3 {
		failed = append(failed, a.batches[batch][n])
	}
	random.Shuffle(len(failed), func(i, j int) { failed[i], failed[j] = failed[j], failed[i] })
	ended := make(chan struct{})
	var person sync.WaitGroup
	person.Go(func() {
		for _, id := range failed {
			_, err := a.h.api.Requeue(a.Context(), id)
			if !errors.Is(err, bloom.ErrTaskNotFound) {
				a.requeued[id] = err == nil // otherwise the connection was cut, and it may have happened
			}
			select {
			case <-ended:
				return
			case <-time.After(20 * time.Millisecond): // a person's own pause
			}
		}
	})
	return func() { close(ended); person.Wait() }
}

// metricSum returns the sum of a server's metrics with that prefix; 0 while it is down.
func (a *archive) metricSum(r *replica, name string) (sum float64) {
	req, err := http.NewRequestWithContext(a.Context(), http.MethodGet, "http://"+r.address+"/metrics", nil)
	a.must(err)
	req.Header.Set("X-Runtime-API-Key", adminKey)
	req.Close = true
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0
	}
	defer res.Body.Close()
	var b bytes.Buffer
	_, _ = b.ReadFrom(res.Body) // a killed server answers partially
	for line := range strings.Lines(b.String()) {
		if of, value, _ := strings.Cut(strings.TrimSpace(line), " "); strings.HasPrefix(of, name) {
			v, _ := strconv.ParseFloat(value, 64)
			sum += v
		}
	}
	return sum
}

// holder returns the server that leads the loops: its reaper runs all the time.
func (a *archive) holder() *replica {
	const reaped = `bloom_loop_last_success_timestamp_seconds{loop="reaper"}`
	if a.metricSum(a.replicas[0], reaped) > a.metricSum(a.replicas[1], reaped) {
		return a.replicas[0]
	}
	return a.replicas[1]
}

// handOver kills the leading server, restarts it, and returns the one that leads now: the other
// one, or itself when it came back first.
func (a *archive) handOver() (worker *replica) {
	a.Helper()
	const removed = "bloom_retention_removed_total"
	had := a.holder()
	other := a.replicas[1-had.n]
	before := a.metricSum(other, removed)
	had.proc.kill()
	had.begin()
	eventually(a.T, "a server removes", func() bool {
		if worker = had; a.metricSum(other, removed) > before {
			worker = other
		}
		return worker == other || a.metricSum(had, removed) > 0
	})
	return worker
}

// settled waits until some server has finished a removal after the given time.
func (a *archive) settled(after time.Time) {
	a.Helper()
	eventually(a.T, "a removal is finished", func() bool {
		for _, r := range a.replicas {
			if a.metricSum(r, `bloom_loop_last_success_timestamp_seconds{loop="retention"}`)*1000 > float64(after.UnixMilli()) {
				return true
			}
		}
		return false
	})
}

func (a *archive) count(query string) (n int) {
	a.Helper()
	a.must(a.db.QueryRow(a.Context(), query).Scan(&n))
	return n
}

// verify compares what is stored with what was.
func (a *archive) verify() {
	a.Helper()
	for _, query := range violations {
		if n := a.count(query); n != 0 {
			a.Errorf("%d times:\n%s", n, query)
		}
	}
	now := a.snapshot()
	for id, was := range a.before {
		is, there := now[id]
		requeued, maybe := a.requeued[id]
		switch {
		case !there && (!a.old[id] || requeued):
			a.Errorf("task %s (requeued: %v) was removed:\n%v", id, requeued, was)
		case !there:
		case requeued || maybe && is.task != was.task:
			// It is queued again, with everything it had.
			if is.status != bloom.TaskQueued || is.rest != was.rest || !strings.HasPrefix(is.events, strings.TrimSuffix(was.events, "]")) {
				a.Errorf("task %s was requeued and is\n%v\nof\n%v", id, is, was)
			}
		case !a.old[id] && is != was, is.task != was.task, is.rest != was.rest, is.events != was.events:
			a.Errorf("task %s is\n%v\nand was\n%v", id, is, was)
		}
	}
	a.verifyFiles(now)
}

// verifyFiles expects the files of stored tasks, each in its folder, and no others.
func (a *archive) verifyFiles(now map[string]belongings) {
	a.Helper()
	for id, path := range a.content {
		_, there := now[id]
		if _, err := os.Stat(path); (err == nil) != there {
			a.Errorf("the content of task %s (there: %v): %v", id, there, err)
		}
		if _, err := os.Stat(filepath.Dir(path)); !there && !errors.Is(err, fs.ErrNotExist) {
			a.Errorf("the folder of task %s is left: %v", id, err)
		}
	}
}
