package store

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/bloom-runtime/bloom"
)

// look is a claim, or a part of it by which the row is found that makes it fail.
type look struct {
	bloom.ClaimRequest
	part  bool   // only this lease is renewed, "" for none
	lease string // with part
	took  string // the first task that was chosen
}

// renews reports whether the look renews a lease.
func (k *look) renews(leaseID string) bool {
	return k.Renew && slices.Contains(k.Held, leaseID) && (!k.part || k.lease == leaseID)
}

// isolate makes a claim, which failed because of what is stored, step by step: each
// lease is renewed and each task is taken by itself. Those that fail are set aside for
// a while, and the whole is claimed without them.
func (s *Store) isolate(ctx context.Context, r bloom.ClaimRequest) (bloom.ClaimResult, error) {
	if r.Renew {
		for _, id := range r.Held {
			k := &look{ClaimRequest: r, part: true, lease: id}
			k.Max = 0
			if _, err := s.claim(ctx, k); isBad(err) {
				s.setAside(notRenewed, id, err)
			}
		}
	}
	for found := 0; r.Max > 0 && found < badMost; {
		k := &look{ClaimRequest: r, part: true}
		k.Max = 1
		_, err := s.claim(ctx, k)
		switch {
		case err == nil && k.took == "":
			return s.claim(ctx, &look{ClaimRequest: r}) // nothing more is open
		case err == nil:
			r.Max-- // the whole claim hands it over
		case isBad(err) && k.took != "":
			s.setAside(notGiven, k.took, err)
			found++
		default:
			return bloom.ClaimResult{}, err
		}
	}
	return s.claim(ctx, &look{ClaimRequest: r})
}

// withoutNext reports whether an operation that opens an ordered task besides can be
// tried without that, since it failed because of what is stored. The task is opened
// when the next one of its context ends.
func (s *Store) withoutNext(o *op, err error) bool {
	if o.opens == "" || !isBad(s.db.Explain(err)) {
		return false
	}
	s.log.Error("a task cannot be changed, or else the ordered one after it, which is left closed", "next", o.opens, "error", err)
	o.leaves = true
	return true
}

// isBad reports whether an operation failed because of what is stored.
func isBad(err error) bool {
	return err != nil && bloom.KindOf(err) == bloom.KindInternal && !errors.Is(err, errEndless) && !passing(err)
}

// passing reports whether an operation failed for a reason that says nothing of what
// is stored: its caller left, its time ran out, or the database does not answer.
func passing(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || bloom.KindOf(err) == bloom.KindUnavailable
}

// failing is an operation that failed because of what is stored, as the log says it.
type failing string

const (
	notRenewed failing = "a lease cannot be renewed and is skipped"
	notExpired failing = "a lease cannot be expired and is skipped"
	notMoved   failing = "a lease's deadline cannot be moved"
	notGiven   failing = "a task cannot be given out and is skipped"
	notOpened  failing = "a delayed task cannot be opened and is skipped"
	notSynced  failing = "a worker's report cannot be stored"
	notSilent  failing = "a silent worker cannot be set offline"
)

// setAside logs what could not be changed and leaves it out of that operation's
// batches for a while.
func (s *Store) setAside(op failing, id string, err error) {
	s.bad.add(op, id)
	s.log.Error(string(op), "id", id, "error", err)
}

// bad remembers for a while what could not be changed because of what is stored, so
// that batches do not meet it again and again. It is remembered by operation: a lease
// that cannot be renewed may well be expired.
type bad struct {
	mu    sync.Mutex
	until map[badRow]time.Time
}

type badRow struct {
	op failing
	id string
}

// badFor is how long that is, badMost how many may be remembered.
const (
	badFor  = time.Minute
	badMost = 1000
)

func (b *bad) add(op failing, id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.until) < badMost {
		b.until[badRow{op, id}] = time.Now().Add(badFor)
	}
}

func (b *bad) list(op failing) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	ids := []string{}
	for row, until := range b.until {
		switch {
		case time.Now().After(until):
			delete(b.until, row)
		case row.op == op:
			ids = append(ids, row.id)
		}
	}
	return ids
}

func (b *bad) has(op failing, id string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	until, ok := b.until[badRow{op, id}]
	return ok && time.Now().Before(until)
}
