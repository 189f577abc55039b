package dispatch

import (
	"context"
	"sync"
	"time"

	"github.com/bloom-runtime/bloom"
)

const (
	forgottenFor      = 2 * time.Second // how long the cached number is used
	forgottenPatience = time.Second     // limits the query, because a claim's answer waits for it
)

// forgotten caches the number of the last forgotten context, so that most claims need
// no query.
type forgotten struct {
	refreshing sync.Mutex // held by the one query that renews the cache
	mu         sync.Mutex // never held during a query
	last       int64
	at         time.Time
}

// Forgotten lists contexts that were forgotten after the given number, oldest first,
// at most one page. A context forgotten less than forgottenFor ago may be missing. If id is
// not empty and the number is not that of the context, the caller knows another database, or
// a newer state of this one: then all are listed.
func (s *Service) Forgotten(ctx context.Context, after int64, id string) (list []bloom.ForgottenContext, all bool, err error) {
	f, now := &s.forgot, s.clock.Now()
	f.mu.Lock()
	fresh, more := now.Sub(f.at) < forgottenFor, after < f.last
	f.mu.Unlock()
	if !more {
		if fresh || !f.refreshing.TryLock() {
			return nil, false, nil
		}
		defer f.refreshing.Unlock()
	}
	ctx, cancel := context.WithTimeout(ctx, forgottenPatience)
	defer cancel()
	from := after
	if id != "" && after > 0 {
		from = after - 1 // with the caller's own
	}
	list, err = s.store.Forgotten(ctx, from, bloom.DefaultPageSize)
	whole := len(list) < bloom.DefaultPageSize
	if from < after && err == nil {
		if len(list) > 0 && list[0].Seq == after && list[0].ID == id {
			list = list[1:]
		} else {
			list, err = s.store.Forgotten(ctx, 0, bloom.DefaultPageSize)
			all, whole = len(list) > 0, len(list) < bloom.DefaultPageSize
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if whole && err == nil {
		f.at = now
	}
	for _, x := range list {
		f.last = max(f.last, x.Seq)
	}
	return list, all, err
}
