package storetest

import (
	"context"
	"errors"
	"fmt"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/audit"
	"github.com/bloom-runtime/bloom/internal/storable"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

// CheckInvariants reads a whole store through its lists and reports every violation:
// tasks and active leases that do not match, missing or duplicate outcomes, an audit that
// does not replay to the current state, streams with gaps, wrong counts. The store should
// be idle.
func CheckInvariants(ctx context.Context, s contract.Store) error {
	c := checker{ctx: ctx, s: s, active: map[string][]bloom.Lease{}, usage: map[string]map[int64]bloom.Usage{}, audit: map[string][]bloom.Audit{}, forgotten: map[string]bool{}}
	c.load()
	for i := range c.tasks {
		c.task(&c.tasks[i])
	}
	c.counts()
	c.contexts()
	c.dangling()
	c.chain()
	return errors.Join(c.errs...)
}

type checker struct {
	ctx    context.Context
	s      contract.Store
	tasks  []bloom.Task
	leases int64
	active map[string][]bloom.Lease         // by task
	usage  map[string]map[int64]bloom.Usage // of leases, by task and epoch
	audit  map[string][]bloom.Audit         // by entity, newest first
	audits int64
	cuts   map[string]int64 // the time before which things may have been removed
	errs   []error

	forgotten map[string]bool // contexts
}

func (c *checker) wrong(format string, args ...any) {
	c.errs = append(c.errs, fmt.Errorf(format, args...))
}

func (c *checker) try(err error) {
	if err != nil {
		c.errs = append(c.errs, err)
	}
}

// pages calls list until there is no next page, and checks that the list ends.
func pages[T any](list func(bloom.Page) ([]T, bloom.Cursor, error)) (all []T, err error) {
	p := bloom.Page{Limit: bloom.MaxPageSize}
	for {
		items, next, err := list(p)
		if err != nil {
			return all, err
		}
		all = append(all, items...)
		if next == (bloom.Cursor{}) {
			return all, nil
		}
		if p.Cursor.Before != 0 && next.Before >= p.Cursor.Before {
			return all, fmt.Errorf("the list's cursor does not go on: %d after %d", next.Before, p.Cursor.Before)
		}
		p.Cursor = next
	}
}

func (c *checker) load() {
	var err error
	c.tasks, err = pages(func(p bloom.Page) ([]bloom.Task, bloom.Cursor, error) {
		return c.s.Tasks(c.ctx, bloom.TaskQuery{Page: p})
	})
	c.try(err)
	leases, err := pages(func(p bloom.Page) ([]bloom.Lease, bloom.Cursor, error) {
		return c.s.Leases(c.ctx, bloom.LeaseQuery{Page: p})
	})
	c.try(err)
	c.leases = int64(len(leases))
	for _, l := range leases {
		if c.usage[l.TaskID] == nil {
			c.usage[l.TaskID] = map[int64]bloom.Usage{}
		}
		c.usage[l.TaskID][l.Epoch] = l.Usage
		if l.Status == bloom.LeaseActive {
			c.active[l.TaskID] = append(c.active[l.TaskID], l)
		}
	}
	entries, err := c.listAudit()
	c.try(err)
	c.cuts, c.audits = cuts(entries), int64(len(entries))
	for _, a := range entries {
		c.audit[a.EntityID] = append(c.audit[a.EntityID], a)
		if a.Action == audit.ActionContextForgotten {
			c.forgotten[a.EntityID] = true
		}
	}
}

func (c *checker) listAudit() ([]bloom.Audit, error) {
	return pages(func(p bloom.Page) ([]bloom.Audit, bloom.Cursor, error) {
		return c.s.Audit(c.ctx, bloom.AuditQuery{Page: p})
	})
}

func (c *checker) task(t *bloom.Task) {
	active := c.active[t.ID]
	if t.Status.Held() != (len(active) == 1) || len(active) > 1 {
		c.wrong("task %s is %s with %d active leases", t.ID, t.Status, len(active))
	}
	if len(active) == 1 && (active[0].Epoch != t.Epoch || t.LeaseID == nil || *t.LeaseID != active[0].ID || t.WorkerID == nil || *t.WorkerID != active[0].WorkerID) {
		c.wrong("task %s does not name its active lease %s", t.ID, active[0].ID)
	}
	if t.Attempts < 0 || t.Attempts > t.MaxAttempts || int64(t.Attempts) > t.Epoch {
		c.wrong("task %s has %d attempts of %d in epoch %d", t.ID, t.Attempts, t.MaxAttempts, t.Epoch)
	}
	if t.Status == bloom.TaskDead && t.Attempts != t.MaxAttempts {
		c.wrong("task %s is dead after %d of %d attempts", t.ID, t.Attempts, t.MaxAttempts)
	}
	if t.Status == bloom.TaskQueued && (t.LeaseID != nil || t.WorkerID != nil) {
		c.wrong("task %s is queued and names a lease or worker", t.ID)
	}
	if t.Status == bloom.TaskQueued && t.Policy.Ordered {
		place, err := c.s.QueuePlace(c.ctx, t.ID)
		if c.try(err); place.Gate == contract.GateOrdered && place.Before == "" {
			c.wrong("task %s waits for an earlier task, and there is none", t.ID)
		}
	}
	c.outcome(t)
	c.replay(t)
	c.stream(t)
}

// outcome checks that each epoch has at most one result, and that the last epoch has one
// exactly if the task ended with one.
func (c *checker) outcome(t *bloom.Task) {
	results, err := c.s.Results(c.ctx, t.ID)
	c.try(err)
	epochs := map[int64]bloom.Result{}
	for _, r := range results {
		if _, twice := epochs[r.Epoch]; twice || r.Epoch < 1 || r.Epoch > t.Epoch {
			c.wrong("task %s has a result too many, or of a wrong epoch %d", t.ID, r.Epoch)
		}
		epochs[r.Epoch] = r
		if a, err := c.s.Artifact(c.ctx, r.ArtifactID); err != nil || a.TaskID != t.ID {
			c.wrong("the artifact of task %s's result is not there: %v", t.ID, err)
		}
	}
	last, ended := epochs[t.Epoch]
	switch t.Status {
	case bloom.TaskCompleted:
		if !ended || last.Status != bloom.OutcomeSuccess {
			c.wrong("task %s is completed without a success of epoch %d", t.ID, t.Epoch)
		}
	case bloom.TaskFailed:
		if !ended || last.Status != bloom.OutcomeError {
			c.wrong("task %s failed without an error of epoch %d", t.ID, t.Epoch)
		}
	case bloom.TaskLeased, bloom.TaskRunning, bloom.TaskDead:
		if ended {
			c.wrong("task %s is %s and has a result of its epoch", t.ID, t.Status)
		}
	}
}

func (c *checker) counts() {
	want := bloom.Stats{Tasks: bloom.TaskStats{ByStatus: map[bloom.TaskStatus]int64{}}, Leases: bloom.LeaseStats{Total: c.leases}}
	for _, t := range c.tasks {
		want.Tasks.Total++
		want.Tasks.ByStatus[t.Status]++
	}
	cost, u := int64(0), &want.Leases.Usage
	for _, leases := range c.active {
		want.Leases.Active += int64(len(leases))
		for _, l := range leases {
			u.TokensUsed += l.Usage.TokensUsed
			u.InputTokens += l.Usage.InputTokens
			u.OutputTokens += l.Usage.OutputTokens
			cost += l.Usage.CostNano()
		}
	}
	u.CostUSD = bloom.Dollars(cost)
	workers, err := c.s.Workers(c.ctx)
	c.try(err)
	held := int64(0)
	for _, w := range workers {
		want.Workers.Total++
		if w.Status == bloom.WorkerOnline {
			want.Workers.Online++
		}
		held += int64(w.ActiveLeases)
	}
	if held != want.Leases.Active {
		c.wrong("the workers hold %d leases, %d are active", held, want.Leases.Active)
	}
	got, err := c.s.Stats(c.ctx)
	c.try(err)
	if g, w := string(storable.MustJSON(got)), string(storable.MustJSON(want)); g != w {
		c.wrong("stats say %s, counted %s", g, w)
	}
}
