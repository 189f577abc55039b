package dispatch

import (
	"context"
	"sync"
	"time"

	"github.com/bloom-runtime/bloom"
)

// forgottenFor is how long the cached number is used.
const forgottenFor = 2 * time.Second

// forgottenPatience limits the query, because a claim's answer waits for it.
const forgottenPatience = time.Second

// forgotten caches the number of the last forgotten context, so that most claims need
// no query.
type forgotten struct {
	mu     sync.Mutex // never held during a query
	last   int64
	at     time.Time
	asking bool // a query for contexts after last is running
}

// ask reports whether to query for contexts after a number. refreshes means that the
// query renews the cache: only one such query runs at a time.
func (f *forgotten) ask(after int64, now time.Time) (ask, refreshes bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if after < f.last {
		return true, false
	}
	if f.asking || now.Sub(f.at) < forgottenFor {
		return false, false
	}
	f.asking = true
	return true, true
}

// answered caches the result of a query that began at a time.
func (f *forgotten) answered(list []bloom.ForgottenContext, began time.Time, refreshed, whole bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if refreshed {
		f.asking = false
	}
	if whole {
		f.at = began
	}
	for _, x := range list {
		f.last = max(f.last, x.Seq)
	}
}

// Forgotten lists contexts that were forgotten after the given number, oldest first,
// at most one page. A context forgotten less than forgottenFor ago may be missing. If id is
// not empty and the number is not that of the context, the caller knows another database, or
// a newer state of this one: then all are listed.
func (s *Service) Forgotten(ctx context.Context, after int64, id string) (list []bloom.ForgottenContext, all bool, err error) {
	now := s.clock.Now()
	ask, refreshes := s.forgot.ask(after, now)
	if !ask {
		return nil, false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, forgottenPatience)
	defer cancel()
	from := after
	if id != "" && after > 0 {
		from = after - 1 // with the caller's own
	}
	list, err = s.store.Forgotten(ctx, from, bloom.DefaultPageSize)
	if whole := len(list) < bloom.DefaultPageSize; from < after && err == nil {
		if len(list) > 0 && list[0].Seq == after && list[0].ID == id {
			list = list[1:]
		} else if list, err = s.store.Forgotten(ctx, 0, bloom.DefaultPageSize); err == nil {
			all, whole = len(list) > 0, len(list) < bloom.DefaultPageSize
		}
		s.forgot.answered(list, now, refreshes, err == nil && whole)
		return list, all, err
	}
	s.forgot.answered(list, now, refreshes, err == nil && len(list) < bloom.DefaultPageSize)
	return list, false, err
}
