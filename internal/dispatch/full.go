package dispatch

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/bloom-runtime/bloom"
)

// countFor is how long a count of the queue is used. This server adds the tasks that
// it creates meanwhile. The next count includes what other servers create and what
// workers claim.
const countFor = time.Second

// fullness decides whether the queue has room. For each actor it counts at most once
// in countFor. It is safe for concurrent use.
type fullness struct {
	store   bloom.Store
	clock   bloom.Clock
	all     int64 // limit of queued tasks; 0: none
	byActor int64 // limit of one actor's; 0: none

	mu     sync.Mutex
	total  *depth
	actors map[string]*depth
}

// depth is the number of queued tasks, as far as this server knows: never too low.
type depth struct {
	mu      sync.Mutex // held during the count
	counted time.Time
	known   int64
	adding  int64         // tasks being created, which the count may include
	doubted bool          // the count may be too high: tasks were counted twice, or perhaps not created
	idle    chan struct{} // closed when no task is being created; nil if nobody waits for that
}

func newFullness(c Config) *fullness {
	return &fullness{store: c.Store, clock: c.Clock, all: c.MaxQueued, byActor: c.MaxQueuedByActor, total: &depth{}, actors: map[string]*depth{}}
}

// enter reserves room for a task of an actor; full names the limit that was reached.
// The caller must call leave once it knows whether the task was created.
func (f *fullness) enter(ctx context.Context, actor string) (leave func(outcome), full *bloom.Error, err error) {
	leave = func(outcome) {}
	if f.byActor > 0 {
		d := f.of(actor)
		room, err := d.take(ctx, f.clock, f.byActor, func() (int64, error) { return f.store.QueuedBy(ctx, actor, f.byActor) })
		if err != nil {
			return leave, nil, err
		}
		if !room {
			return leave, queueFull(fmt.Sprintf("%d tasks that this key created are queued, the most that one key may have", f.byActor)), nil
		}
		leave = d.leave
	}
	if f.all > 0 {
		room, err := f.total.take(ctx, f.clock, f.all, func() (int64, error) {
			st, err := f.store.Stats(ctx)
			return st.Tasks.ByStatus[bloom.TaskQueued], err
		})
		if err != nil || !room {
			leave(nothing)
			leave = func(outcome) {}
		}
		if err != nil {
			return leave, nil, err
		}
		if !room {
			return leave, queueFull(fmt.Sprintf("%d tasks are queued, the most that the runtime accepts", f.all)), nil
		}
		actors := leave
		leave = func(o outcome) { actors(o); f.total.leave(o) }
	}
	return leave, nil, nil
}

func queueFull(why string) *bloom.Error {
	return &bloom.Error{Kind: bloom.KindRateLimited, Code: bloom.CodeQueueFull,
		Message: "The queue is full: " + why + "; try again when workers have taken some of them"}
}

// maxDepths limits the cached actors. When it is reached, the cache is emptied.
const maxDepths = 4096

func (f *fullness) of(actor string) *depth {
	f.mu.Lock()
	defer f.mu.Unlock()
	d := f.actors[actor]
	if d == nil {
		if len(f.actors) >= maxDepths {
			clear(f.actors)
		}
		d = &depth{}
		f.actors[actor] = d
	}
	return d
}

// take reserves room for one task, while there are fewer than most. A task that is
// committed during a count is both counted and being added. Before that leads to a refusal,
// take counts again while no task is being added.
func (d *depth) take(ctx context.Context, clock bloom.Clock, most int64, count func() (int64, error)) (bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := clock.Now()
	stale := d.counted.IsZero() || now.Sub(d.counted) >= countFor
	for stale || d.doubted && d.known+d.adding >= most {
		if !stale && d.adding > 0 {
			if err := d.wait(ctx); err != nil {
				return false, err
			}
			continue
		}
		n, err := count()
		if err != nil {
			return false, err
		}
		d.known, d.counted, d.doubted, stale = n, now, d.adding > 0, false
	}
	if d.known+d.adding >= most {
		return false, nil
	}
	d.adding++
	return true, nil
}

// wait releases the lock until no task is being added.
func (d *depth) wait(ctx context.Context) error {
	if d.idle == nil {
		d.idle = make(chan struct{})
	}
	idle := d.idle
	d.mu.Unlock()
	defer d.mu.Lock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// outcome is what became of the creation of a task.
type outcome int

const (
	nothing outcome = iota // there is no new task
	created
	unknown // counted as created, until a count says more
)

// leave ends what take began.
func (d *depth) leave(o outcome) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.adding--
	if o != nothing {
		d.known++
	}
	d.doubted = d.doubted || o == unknown
	if d.adding == 0 && d.idle != nil {
		close(d.idle)
		d.idle = nil
	}
}
