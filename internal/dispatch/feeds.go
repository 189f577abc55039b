package dispatch

import (
	"maps"
	"slices"
	"sync"

	"github.com/bloom-runtime/bloom"
)

// feeds notifies streams of changes. A feed of one task is only a signal; a feed of
// everything collects the changes since it was last read.
type feeds struct {
	mu     sync.Mutex
	byTask map[string]map[chan struct{}]bool
	all    map[*ChangeFeed]struct{}
}

func newFeeds() *feeds {
	return &feeds{byTask: map[string]map[chan struct{}]bool{}, all: map[*ChangeFeed]struct{}{}}
}

// publish never blocks: it runs in the store's commit path.
func (f *feeds) publish(changes []bloom.Change) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range changes {
		for feed := range f.byTask[c.TaskID] {
			notify(feed)
		}
	}
	for feed := range f.all {
		feed.add(changes)
	}
}

func (f *feeds) watchTask(id string) (changed <-chan struct{}, stop func()) {
	feed := make(chan struct{}, 1)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.byTask[id] == nil {
		f.byTask[id] = map[chan struct{}]bool{}
	}
	f.byTask[id][feed] = true
	return feed, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.byTask[id], feed)
		if len(f.byTask[id]) == 0 {
			delete(f.byTask, id)
		}
	}
}

// maxPendingChanges limits what a slow reader of changes accumulates.
const maxPendingChanges = 1024

// ChangeFeed collects the changes of the whole server until they are read, in no order: only the
// last change of each task and worker.
type ChangeFeed struct {
	signal chan struct{}

	mu      sync.Mutex
	pending map[changeKey]bloom.Change
	missed  bool
}

type changeKey struct{ kind, task, worker string }

// Changes opens a feed of every change on the server; stop ends it.
func (s *Service) Changes() (feed *ChangeFeed, stop func()) {
	feed = &ChangeFeed{signal: make(chan struct{}, 1), pending: map[changeKey]bloom.Change{}}
	s.feeds.mu.Lock()
	defer s.feeds.mu.Unlock()
	s.feeds.all[feed] = struct{}{}
	return feed, func() {
		s.feeds.mu.Lock()
		defer s.feeds.mu.Unlock()
		delete(s.feeds.all, feed)
	}
}

func (f *ChangeFeed) add(changes []bloom.Change) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range changes {
		if c.Kind == bloom.ChangeMissed {
			f.missed = true
			continue
		}
		key := changeKey{kind: c.Kind, task: c.TaskID}
		if c.TaskID == "" {
			key.worker = c.WorkerID
		}
		if _, known := f.pending[key]; !known && len(f.pending) == maxPendingChanges {
			f.missed = true
			continue
		}
		f.pending[key] = c
	}
	notify(f.signal)
}

// Signal receives a value when there are changes to take.
func (f *ChangeFeed) Signal() <-chan struct{} { return f.signal }

// Take empties the feed. missed means that changes were lost, because the feed was
// full or the store missed notifications: the reader should read its lists again.
func (f *ChangeFeed) Take() (changes []bloom.Change, missed bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	changes, missed = slices.Collect(maps.Values(f.pending)), f.missed
	clear(f.pending)
	f.missed = false
	return changes, missed
}
