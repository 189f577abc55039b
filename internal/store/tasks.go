package store

import (
	"cmp"
	"context"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/lifecycle"
	"github.com/bloom-runtime/bloom/internal/schema"
)

// CreateTask queues a task. It reports whether the task existed already.
func (s *Store) CreateTask(ctx context.Context, n bloom.NewTask) (bloom.Task, bool, error) {
	if !schema.IsID(n.ID) {
		return bloom.Task{}, false, bloom.Invalid("The task's id must be a UUID")
	}
	type answer struct {
		task     bloom.Task
		replayed bool
	}
	key := Key{n.IdempotencyScope, n.Spec.IdempotencyKey}
	contextID := n.Spec.ContextID
	reads := func(r *ReadSet) {
		r.Views.Add(n.ID)
		r.Homes.Add(contextID)
		r.Numbers++
		if key.Key != "" {
			r.Keys.Add(key)
		}
		if n.Spec.Policy.Ordered {
			atLeast(&r.Ordered, contextID, firstOrdered)
		}
	}
	a, err := do(ctx, s, reads, func(u *Unit) (a answer, err error) {
		a.task, a.replayed, err = u.create(n, key)
		return a, err
	})
	return a.task, a.replayed, err
}

func (u *Unit) create(n bloom.NewTask, key Key) (bloom.Task, bool, error) {
	if key.Key != "" {
		first, err := u.keyed(key)
		switch {
		case err != nil:
			return bloom.Task{}, false, err
		case first != nil && first.BodyHash != n.BodyHash:
			return bloom.Task{}, false, bloom.ErrIdempotency
		case first != nil:
			task, err := u.view(first.TaskID)
			return task, true, err
		}
	}
	if first, err := u.view(n.ID); !isNotFound(err) {
		return first, true, err
	}
	if n.Full {
		return bloom.Task{}, false, bloom.ErrQueueFull
	}
	t := &Task{Task: n.Task(u.Now), BodyHash: n.BodyHash, Actor: n.Actor, fresh: true}
	var err error
	if t.Seq, err = u.number(); err != nil {
		return bloom.Task{}, false, err
	}
	if t.IdempotencyKey != nil {
		t.Scope = &key.Scope
	}
	u.tasks[t.ID] = t
	if err := u.enqueue(t, ""); err != nil {
		return bloom.Task{}, false, err
	}
	if t.Scope != nil {
		u.keys[key] = &Keyed{t.ID, t.BodyHash}
	}
	u.c.NewTasks = append(u.c.NewTasks, t)
	u.count("", bloom.TaskQueued)
	u.newInContext(t)
	u.record(t, lifecycle.Created(t.Task), n.Actor)
	return t.Task, false, nil
}

// keyed returns the task that first used an idempotency key, nil if there is none.
func (u *Unit) keyed(k Key) (*Keyed, error) {
	if first, ok := u.keys[k]; ok {
		return first, nil
	}
	first, ok := u.rows.Keys[k]
	if !ok {
		u.missing.Keys.Add(k)
		return nil, errMissing
	}
	return first, nil
}

// number returns the number of a new task.
func (u *Unit) number() (int64, error) {
	if u.numbers == len(u.rows.Numbers) {
		u.missing.Numbers++
		return 0, errMissing
	}
	u.numbers++
	return u.rows.Numbers[u.numbers-1], nil
}

// Cancel cancels a task.
func (s *Store) Cancel(ctx context.Context, id, actor string) (bloom.Task, error) {
	return s.move(ctx, id, actor, lifecycle.Cancel)
}

// Requeue requeues an ended task.
func (s *Store) Requeue(ctx context.Context, id, actor string) (bloom.Task, error) {
	return s.move(ctx, id, actor, lifecycle.Requeue)
}

// move applies a rule that concerns no lease.
func (s *Store) move(ctx context.Context, id, actor string, rule func(bloom.TaskState, int64) (lifecycle.Transition, error)) (bloom.Task, error) {
	reads := func(r *ReadSet) {
		r.Tasks.Add(id)
		r.Texts.Add(id)
	}
	return do(ctx, s, reads, func(u *Unit) (bloom.Task, error) {
		t, err := u.task(id)
		if err != nil {
			return bloom.Task{}, err
		}
		tr, err := rule(t.TaskState, u.Now)
		if err != nil {
			return bloom.Task{}, err
		}
		if err := u.apply(t, nil, tr, actor); err != nil {
			return bloom.Task{}, err
		}
		return u.withText(t)
	})
}

// AppendEvents appends a worker's events to a task's stream. Events that are stored
// already are skipped.
func (s *Store) AppendEvents(ctx context.Context, taskID, leaseID string, events []bloom.WorkerEvent) (int64, error) {
	reads := func(r *ReadSet) {
		readNamed(r, taskID, leaseID)
		for _, e := range events {
			r.Repeats.Add(EventKey{taskID, e.Seq})
		}
	}
	return do(ctx, s, reads, func(u *Unit) (int64, error) {
		t, l, err := u.named(taskID, leaseID)
		if err != nil {
			return 0, err
		}
		if _, err := lifecycle.Heartbeat(t.TaskState, l.Lease, u.Now); err != nil {
			return 0, err
		}
		added := false
		for _, e := range events {
			repeats, err := u.repeats(EventKey{taskID, e.Seq})
			if err != nil {
				return 0, err
			}
			if repeats {
				continue
			}
			u.events[EventKey{taskID, e.Seq}], added = true, true
			seq := e.Seq
			u.event(t, Event{
				Type: e.Type, At: cmp.Or(e.At, u.Now), Epoch: l.Epoch, WorkerSeq: &seq, Data: e.Data,
			})
		}
		if added {
			u.notify = append(u.notify, bloom.Change{Kind: bloom.ChangeEvents, TaskID: taskID, WorkerID: l.WorkerID})
		}
		return t.LastEvent, nil
	})
}

// repeats reports whether an event of the task's current lease is stored already.
func (u *Unit) repeats(k EventKey) (bool, error) {
	if u.events[k] {
		return true, nil
	}
	stored, ok := u.rows.Repeats[k]
	if !ok {
		u.missing.Repeats.Add(k)
		return false, errMissing
	}
	return stored, nil
}
