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

// forgotten caches the last forgotten context, so that most claims need no query.
type forgotten struct {
	refreshing sync.Mutex // held by the one query that renews the cache
	mu         sync.Mutex // never held during a query
	last       bloom.ForgottenContext
	at         time.Time
}

// Forgotten lists contexts that were forgotten after the given number, oldest first,
// at most one page. A context forgotten less than forgottenFor ago may be missing. If id is
// not empty and the number is not that of the context, the caller knows another database, or
// a newer state of this one: then all are listed.
func (s *Service) Forgotten(ctx context.Context, after int64, id string) (list []bloom.ForgottenContext, all bool, err error) {
	f, now := &s.forgot, s.clock.Now()
	f.mu.Lock()
	fresh := now.Sub(f.at) < forgottenFor
	upToDate := f.last.Seq == 0 || after == f.last.Seq && id == f.last.ID || after >= f.last.Seq && id == ""
	f.mu.Unlock()
	if upToDate {
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
	found, err := s.store.Forgotten(ctx, from, bloom.DefaultPageSize)
	list = found
	if from < after && err == nil {
		if len(found) > 0 && found[0].Seq == after && found[0].ID == id {
			list = found[1:]
		} else {
			from = 0
			found, err = s.store.Forgotten(ctx, 0, bloom.DefaultPageSize)
			list, all = found, len(found) > 0
		}
	}
	if err != nil {
		return nil, false, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	whole := len(found) < bloom.DefaultPageSize
	if whole {
		f.at = now
	}
	if n := len(found); n > 0 && (whole || found[n-1].Seq > f.last.Seq) {
		f.last = found[n-1]
	} else if n == 0 && from == 0 {
		f.last = bloom.ForgottenContext{}
	}
	return list, all, nil
}
