package store

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/store/contract"
	"github.com/bloom-runtime/bloom/internal/timing"
)

// claimAttempt is a claim, or the part of one that isolate tries.
type claimAttempt struct {
	contract.ClaimRequest
	partial   bool   // renew only the lease onlyLease, "" for none
	onlyLease string // with partial
	firstTask string // result: the first task that was chosen
}

func (k *claimAttempt) renews(leaseID string) bool {
	return k.Renew && slices.Contains(k.Held, leaseID) && (!k.partial || k.onlyLease == leaseID)
}

// maxSuspects is how many tasks in a row isolate tries to lease without success.
const maxSuspects = 100

// isolate repeats a claim that failed because of a bad row. It renews each lease and
// takes each task separately, quarantines those that fail, and then claims without
// them. A task that fails is skipped for this worker; for all workers only once another
// one can be leased to it, because the bad row may be the worker's.
func (s *Store) isolate(ctx context.Context, r contract.ClaimRequest) (bloom.ClaimResult, error) {
	if r.Renew {
		for _, id := range r.Held {
			k := &claimAttempt{ClaimRequest: r, partial: true, onlyLease: id}
			k.Max = 0
			if _, err := s.claim(ctx, k); causedByData(err) {
				s.quarantine(notRenewed, id, err)
			}
		}
	}
	suspects := map[string]error{}
	for r.Max > 0 && len(suspects) < maxSuspects {
		k := &claimAttempt{ClaimRequest: r, partial: true}
		k.Max = 1
		_, err := s.claim(ctx, k)
		switch {
		case err == nil && k.firstTask == "":
			return s.claim(ctx, &claimAttempt{ClaimRequest: r}) // no open task is left
		case err == nil:
			r.Max-- // the last claim returns this lease, because the worker does not name it
			for task, err := range suspects {
				s.quarantine(notGiven, task, err)
			}
			clear(suspects)
		case causedByData(err) && k.firstTask != "":
			s.quarantine(notGivenTo, forWorker(k.firstTask, r.WorkerID), err)
			suspects[k.firstTask] = err
		default:
			return bloom.ClaimResult{}, err
		}
	}
	r.Max = 0
	return s.claim(ctx, &claimAttempt{ClaimRequest: r})
}

// forWorker is the id of a task in the quarantine of one worker. It begins with the task's.
func forWorker(taskID, worker string) string { return taskID + " for " + worker }

// withoutNext reports whether to retry an operation that opened the next ordered task,
// whose row may be the bad one: first as it is, then without opening that task, which
// openOrdered does later.
func (s *Store) withoutNext(o *op, err error) bool {
	if o.openedNext == "" || !causedByData(s.db.Explain(err)) {
		return false
	}
	if !o.triedNext {
		o.triedNext = true
		return true
	}
	s.log.Error("a task or the ordered task after it cannot be changed: retrying without opening the next one", "next_task_id", o.openedNext, "error", err)
	o.skipNext = true
	return true
}

// causedByData reports whether an operation failed because of a bad row.
func causedByData(err error) bool {
	return err != nil && bloom.KindOf(err) == bloom.KindInternal && !errors.Is(err, errEndlessReads) && !transient(err)
}

// transient reports whether an operation failed for a reason that has nothing to do
// with the rows: it was cancelled, it timed out, or the database is unavailable.
func transient(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || bloom.KindOf(err) == bloom.KindUnavailable
}

// failure is the log message for a row that an operation cannot change.
type failure string

const (
	notRenewed failure = "skipping a lease that cannot be renewed"
	notExpired failure = "skipping a lease that cannot be expired"
	notMoved   failure = "skipping a lease whose deadline cannot be extended"
	notGiven   failure = "skipping a task that cannot be leased"
	notGivenTo failure = "skipping a task that cannot be leased to this worker"
	notOpened  failure = "skipping a delayed task that cannot be opened"
	notOrdered failure = "skipping an ordered task that cannot be opened"
	notSynced  failure = "skipping a worker's report that cannot be stored"
	notSilent  failure = "skipping a silent worker that cannot be set offline"
)

// quarantine logs a row that could not be changed and keeps it out of the operation's
// batches for quarantineTime.
func (s *Store) quarantine(op failure, id string, err error) {
	s.quarantined.add(op, id)
	s.log.Error(string(op), "id", id, "error", err)
}

// quarantine lists rows that could not be changed, so that batches skip them for a
// while. Entries are per operation: a lease that cannot be renewed may still be
// expired.
type quarantine struct {
	mu    sync.Mutex
	until map[quarantineKey]time.Time
}

type quarantineKey struct {
	op failure
	id string
}

const (
	quarantineTime = time.Minute
	quarantineMax  = 1000 // entries
)

func (b *quarantine) add(op failure, id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.until) >= quarantineMax {
		b.expire()
	}
	if len(b.until) < quarantineMax {
		b.until[quarantineKey{op, id}] = time.Now().Add(quarantineTime)
	}
}

func (b *quarantine) list(op failure) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.expire()
	ids := []string{}
	for row := range b.until {
		if row.op == op {
			ids = append(ids, row.id)
		}
	}
	return ids
}

// expire removes the entries whose time is over.
func (b *quarantine) expire() {
	maps.DeleteFunc(b.until, func(_ quarantineKey, until time.Time) bool { return time.Now().After(until) })
}

// skipped returns until when a task is skipped, in Unix milliseconds; 0: it is not.
func (b *quarantine) skipped(taskID string) (until int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for row, at := range b.until {
		if strings.HasPrefix(row.id, taskID) && time.Now().Before(at) {
			until = max(until, timing.Millis(at))
		}
	}
	return until
}

func (b *quarantine) has(op failure, id string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	until, ok := b.until[quarantineKey{op, id}]
	return ok && time.Now().Before(until)
}
