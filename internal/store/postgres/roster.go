package postgres

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/bloom-runtime/bloom"
)

const (
	// smallRoster is how many online workers are all looked at for every lease that
	// names nobody, and how many of a larger number are.
	smallRoster = 64
	// rosterAge is how old what is remembered of a larger number may be.
	rosterAge = time.Second
)

// roster remembers the online workers and about how much each holds, so that a
// lease that names nobody need not read thousands of them. It only proposes:
// what it proposes is read in the transaction that leases, and when nobody of
// those fits everybody is.
type roster struct {
	mu      sync.Mutex
	read    time.Time
	reading bool
	workers []bloom.Worker // the freshest contact first
	at      map[string]int // place in workers, by name
}

// proposal is who may get a task; everybody when there are few.
type proposal struct {
	everybody bool
	names     []string
}

// propose finds the workers that are likely to be chosen for a task. A failure to
// read is left to the transaction that follows.
func (s *Store) propose(ctx context.Context, taskID string) proposal {
	if !s.roster.fresh(ctx, s) || !isID(taskID) {
		return proposal{everybody: true}
	}
	var labels list
	if err := s.reads.QueryRow(ctx, `SELECT labels FROM llm_tasks WHERE id = $1`, taskID).Scan(&labels); err != nil {
		return proposal{everybody: true}
	}
	return proposal{names: s.roster.best(labels)}
}

// fresh reads the workers again when it is time to, and reports whether there are
// more than can all be looked at. One caller reads, the others go on with what
// is there.
func (r *roster) fresh(ctx context.Context, s *Store) (many bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.reading || time.Since(r.read) < rosterAge {
		return len(r.workers) > smallRoster
	}
	r.reading = true
	r.mu.Unlock()
	workers, err := collect(ctx, s.reads, scanRostered, `SELECT w.id, w.max_concurrency, w.labels, w.last_heartbeat, coalesce(h.n, 0) FROM workers w
		LEFT JOIN (SELECT l.worker_id, count(*) AS n FROM leases l WHERE l.status = 'active' GROUP BY l.worker_id) h ON h.worker_id = w.id
		WHERE NOT w.removed AND w.status = 'online' AND w.claude_cli AND NOT w.draining`)
	r.mu.Lock()
	r.reading = false
	if err != nil {
		return false
	}
	slices.SortFunc(workers, bloom.Fresher)
	r.read, r.workers, r.at = time.Now(), workers, make(map[string]int, len(workers))
	for i, w := range workers {
		r.at[w.ID] = i
	}
	return len(workers) > smallRoster
}

func scanRostered(rows pgx.Rows) (bloom.Worker, error) {
	w := bloom.Worker{Status: bloom.WorkerOnline, Capabilities: bloom.Capabilities{ClaudeCLI: true}}
	err := rows.Scan(&w.ID, &w.Capabilities.MaxConcurrency, (*list)(&w.Capabilities.Labels), &w.LastHeartbeat, &w.ActiveLeases)
	return w, err
}

// best names those who can take a task with these labels and are the likeliest
// choice of bloom.PickWorker.
func (r *roster) best(labels []string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var free [bloom.MaxConcurrency + 1]int // how many have that much room
	for i := range r.workers {
		if w := &r.workers[i]; w.CanTake(labels) {
			free[w.Free()]++
		}
	}
	least, room := bloom.MaxConcurrency, smallRoster // who has least is named as long as there is room
	for least > 1 && room > free[least] {
		room -= free[least]
		least--
	}
	names := make([]string, 0, smallRoster)
	for i := range r.workers {
		w := &r.workers[i]
		switch {
		case !w.CanTake(labels) || w.Free() < least:
			continue
		case w.Free() == least:
			if room--; room < 0 {
				continue
			}
		}
		names = append(names, w.ID)
	}
	return names
}

// note counts the leases that a committed transaction began and ended.
func (r *roster) note(begun, changed []*lease) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.workers) <= smallRoster {
		return
	}
	count := func(l *lease, n int) {
		if i, ok := r.at[l.WorkerID]; ok {
			r.workers[i].ActiveLeases = max(0, r.workers[i].ActiveLeases+n)
		}
	}
	for _, l := range begun {
		count(l, 1)
	}
	for _, l := range changed {
		if l.gaveUp() {
			count(l, -1)
		}
	}
}
