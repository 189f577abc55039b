package group

import (
	"sync"

	"github.com/bloom-runtime/bloom"
)

// Feed notifies subscribers of committed changes. The zero Feed is ready to use. It is safe for
// concurrent use.
type Feed struct {
	mu   sync.Mutex
	next int
	fns  map[int]func([]bloom.Change)
}

// Subscribe calls fn with the changes of every Publish, on its goroutine, until stop is called. A
// call in progress still completes.
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

// Publish notifies the subscribers one after the other. It ignores an empty list.
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
		fn(changes) // without the lock: fn may subscribe or stop
	}
}
