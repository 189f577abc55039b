package dispatch

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/store/contract"
	"github.com/bloom-runtime/bloom/internal/timing"
)

// countFor is how long a count of the queue is used. This server adds the tasks that
// it creates meanwhile. The next count includes what other servers create and what
// workers claim.
const countFor = time.Second

// maxDepths limits the cached actors. When it is reached, the cache is emptied.
const maxDepths = 4096

// fullness decides whether the queue has room. For each actor it counts at most once
// in countFor: a count for every task would cost as much as the task. It is safe for concurrent use.
type fullness struct {
	store   contract.Store
	clock   timing.Clock
	all     int64 // limit of queued tasks; 0: none
	byActor int64 // limit of one actor's; 0: none

	mu     sync.Mutex
	total  *depth
	actors map[string]*depth
}

func newFullness(c Config) *fullness {
	return &fullness{store: c.Store, clock: c.Clock, all: c.MaxQueued, byActor: c.MaxQueuedByActor, total: newDepth(), actors: map[string]*depth{}}
}

// enter reserves room for a task of an actor; full names the limit that was reached.
// The caller must call leave once it knows whether the task was created.
func (f *fullness) enter(ctx context.Context, actor string) (leave func(outcome), full *bloom.Error, err error) {
	var entered []*depth
	leave = func(o outcome) {
		for _, d := range entered {
			d.leave(o)
		}
	}
	for _, limit := range []struct {
		of    *depth
		most  int64
		count func() (int64, error)
		why   string
	}{
		{f.of(actor), f.byActor, func() (int64, error) { return f.store.QueuedBy(ctx, actor, f.byActor) },
			"%d tasks that this key created are queued, the most that one key may have"},
		{f.total, f.all, func() (int64, error) {
			st, err := f.store.Stats(ctx)
			return st.Tasks.ByStatus[bloom.TaskQueued], err
		}, "%d tasks are queued, the most that the runtime accepts"},
	} {
		if limit.most <= 0 {
			continue
		}
		room, err := limit.of.take(f.clock.Now(), limit.most, limit.count)
		if err != nil || !room {
			leave(nothing)
			entered = nil
			return leave, queueFull(fmt.Sprintf(limit.why, limit.most)), err
		}
		entered = append(entered, limit.of)
	}
	return leave, nil, nil
}

func queueFull(why string) *bloom.Error {
	return &bloom.Error{Kind: bloom.KindRateLimited, Code: bloom.CodeQueueFull,
		Message: "The queue is full: " + why + "; try again when workers have taken some of them"}
}

func (f *fullness) of(actor string) *depth {
	f.mu.Lock()
	defer f.mu.Unlock()
	d := f.actors[actor]
	if d == nil {
		if len(f.actors) >= maxDepths {
			clear(f.actors)
		}
		d = newDepth()
		f.actors[actor] = d
	}
	return d
}

// depth is the number of queued tasks, as far as this server knows: never too low.
type depth struct {
	mu      sync.Mutex // held during the count
	counted time.Time  // zero: not yet, or the number is not certain
	known   int64
	adding  int // tasks being created, which are in known
	idle    *sync.Cond
}

func newDepth() *depth {
	d := &depth{}
	d.idle = sync.NewCond(&d.mu)
	return d
}

// take reserves room for one task, while there are fewer than most. It counts while no task is being
// created, because one that is committed meanwhile would count twice.
func (d *depth) take(now time.Time, most int64, count func() (int64, error)) (bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for d.counted.IsZero() || now.Sub(d.counted) >= countFor {
		if d.adding > 0 {
			d.idle.Wait()
			continue
		}
		n, err := count()
		if err != nil {
			return false, err
		}
		d.known, d.counted = n, now
	}
	if d.known >= most {
		return false, nil
	}
	d.known++
	d.adding++
	return true, nil
}

// outcome is what became of the creation of a task.
type outcome int

const (
	nothing outcome = iota // there is no new task
	created
	unknown
)

// leave ends what take began.
func (d *depth) leave(o outcome) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch d.adding--; o {
	case nothing:
		d.known--
	case unknown:
		d.counted = time.Time{}
	case created:
	}
	if d.adding == 0 {
		d.idle.Broadcast()
	}
}
