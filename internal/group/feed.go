package group

import (
	"sync"

	"github.com/bloom-runtime/bloom"
)

// Feed calls its subscribers with what was committed. The zero Feed is ready; any
// number of goroutines may use it.
type Feed struct {
	mu   sync.Mutex
	next int
	fns  map[int]func([]bloom.Change)
}

// Subscribe calls fn with the changes of every Publish, from its goroutine, until
// stop is called; a call that is under way then still ends.
func (f *Feed) Subscribe(fn func([]bloom.Change)) (stop func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fns == nil {
		f.fns = make(map[int]func([]bloom.Change))
	}
	id := f.next
	f.next++
	f.fns[id] = fn
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.fns, id)
	}
}

// Publish tells the subscribers of changes, one after the other. None are no news.
func (f *Feed) Publish(changes []bloom.Change) {
	if len(changes) == 0 {
		return
	}
	f.mu.Lock()
	fns := make([]func([]bloom.Change), 0, len(f.fns))
	for _, fn := range f.fns {
		fns = append(fns, fn)
	}
	f.mu.Unlock()
	for _, fn := range fns {
		fn(changes) // outside the lock: it may subscribe or stop
	}
}
