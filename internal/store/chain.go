package store

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/retry"
)

// Chain is the end of the audit's chain, locked, and what comes next. Entries are
// chained in the order of their numbers: an entry comes next when no other with a lower
// number can appear any more.
type Chain struct {
	Head     bloom.ChainHead
	Unsealed []bloom.Audit
	// Doubt: there are entries, but another process may still commit one that belongs
	// before them.
	Doubt bool
}

// Link is the hash of an entry of the audit.
type Link struct {
	Seq  int64
	Hash string
}

// Links chains entries to a head.
func Links(head bloom.ChainHead, entries []bloom.Audit) (bloom.ChainHead, []Link) {
	links := make([]Link, 0, len(entries))
	for _, a := range entries {
		head = head.Next(a)
		links = append(links, Link(head))
	}
	return head, links
}

// Pace of the sealing.
const (
	sealBatch = 1000 // entries in one transaction
	// sealWithin is how long a commit's entries wait for others to be chained with
	// them: one transaction for many.
	sealWithin = 150 * time.Millisecond
	sealAgain  = 25 * time.Millisecond // before another look, when others have to finish first
	sealLast   = 2 * time.Second       // for what is left when the store closes
	sealRest   = 3                     // how much longer than a full batch took is rested after it
)

var sealFails = retry.Policy{First: time.Second, Max: 30 * time.Second, Jitter: 0.2}

// sealing is what one transaction of the sealing did.
type sealing struct {
	sealed  int
	blocked bool // by another process
}

// Seal chains entries that are not.
func (s *Store) Seal(ctx context.Context) (int, error) {
	did, err := s.seal(ctx)
	return did.sealed, err
}

func (s *Store) seal(ctx context.Context) (sealing, error) {
	s.sealing.Lock()
	defer s.sealing.Unlock()
	return apart(ctx, s, func(r *ReadSet) { r.Unsealed = sealBatch }, func(u *Unit) (sealing, error) {
		c := u.rows.Chain
		if c == nil {
			return sealing{blocked: true}, nil
		}
		if len(c.Unsealed) > 0 {
			u.dirt = true
			head, links := Links(c.Head, c.Unsealed)
			u.c.Head, u.c.Links = &head, links
		}
		return sealing{len(c.Unsealed), c.Doubt}, nil
	})
}

// sealTo chains entries up to one that is to be removed, for only those may be; as far
// as it gets.
func (s *Store) sealTo(ctx context.Context, seq int64) error {
	for {
		head, err := s.db.AuditHead(ctx)
		if err != nil || head.Seq >= seq {
			return err
		}
		if did, err := s.seal(ctx); err != nil || did.sealed == 0 {
			return err
		}
	}
}

// keepSealed chains what is committed until the store closes.
func (s *Store) keepSealed() {
	defer close(s.sealed)
	fails, pause, busy := sealFails.Waits(), time.Duration(0), true
	for s.awaitUnsealed(pause, busy) {
		began := time.Now()
		did, err := s.seal(s.life)
		switch {
		case err != nil: // the store has logged it
			pause, busy = fails(), true
			continue
		case did.blocked:
			pause, busy = sealAgain, true
		case did.sealed == sealBatch:
			pause, busy = sealRest*time.Since(began), true
		default:
			pause, busy = s.cfg.SealPoll, false
		}
		fails = sealFails.Waits()
	}
	select {
	case <-s.unsealed: // else another process, or the next start, chains it
		ctx, cancel := context.WithTimeout(s.life, sealLast)
		defer cancel()
		_, _ = s.seal(ctx)
	default:
	}
}

// awaitUnsealed waits for the pause, 0 for none when busy and for ever when not. Who
// is not busy is woken by a commit. It is false when the store closes.
func (s *Store) awaitUnsealed(pause time.Duration, busy bool) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	over, wake := timer.C, s.unsealed
	switch {
	case busy:
		wake = nil
	case pause == 0:
		over = nil
	}
	select {
	case <-over:
	case <-s.closing:
		return false
	case <-wake:
		timer.Reset(sealWithin)
		select {
		case <-timer.C:
		case <-s.closing:
			s.wakeSealing() // it is still to be done
			return false
		}
	}
	return true
}

// wakeSealing lets the sealing know of a commit.
func (s *Store) wakeSealing() {
	select {
	case s.unsealed <- struct{}{}:
	default:
	}
}

// AuditExport is how far the audit was exported.
func (s *Store) AuditExport(ctx context.Context) (bloom.AuditExport, error) {
	return do(ctx, s, func(r *ReadSet) { r.Export = true }, (*Unit).exported)
}

// exported is how far the audit was exported, under its lock.
func (u *Unit) exported() (bloom.AuditExport, error) {
	switch {
	case u.c.Export != nil:
		return *u.c.Export, nil
	case u.rows.Export == nil:
		return bloom.AuditExport{}, errBusy
	}
	return *u.rows.Export, nil
}

// SetAuditExport replaces how far the audit was exported.
func (s *Store) SetAuditExport(ctx context.Context, was, is bloom.AuditExport) error {
	_, err := do(ctx, s, func(r *ReadSet) { r.Export = true }, func(u *Unit) (struct{}, error) {
		switch now, err := u.exported(); {
		case err != nil:
			return struct{}{}, err
		case now == is: // by an attempt whose commit was not known
			return struct{}{}, nil
		case now != was:
			return struct{}{}, bloom.Conflict("Another process has exported the audit meanwhile")
		}
		u.dirt = true
		u.c.Export = &is
		if is.Branch != was.Branch {
			u.audit(bloom.ActionAuditForked, bloom.EntityAudit, "export", bloom.ActorAuditExport,
				fmt.Sprintf("Exported files hold entries after %d that the database does not have: a backup was restored. New entries go to files of a new branch", is.Exported),
				bloom.MustJSON(map[string]int64{"after": is.Exported, "branch": int64(is.Branch)}))
		}
		return struct{}{}, nil
	})
	return err
}

// Since is how long ago something was, both in Unix milliseconds; 0 for nil.
func Since(now int64, at *int64) time.Duration {
	if at == nil {
		return 0
	}
	return max(time.Duration(now-*at)*time.Millisecond, time.Millisecond)
}

// MergeLinks are the entries of a page and the places around them that have none, in the
// order of Seq, as far as both were read. Where both have a place the entry was there.
func MergeLinks(entries, bare []bloom.ChainLink, limit int) []bloom.ChainLink {
	upto := int64(math.MaxInt64)
	for _, read := range [][]bloom.ChainLink{entries, bare} {
		if len(read) == limit {
			upto = min(upto, read[limit-1].Seq)
		}
	}
	links := slices.Concat(entries, bare)
	slices.SortStableFunc(links, func(a, b bloom.ChainLink) int { return cmp.Compare(a.Seq, b.Seq) })
	links = slices.CompactFunc(links, func(a, b bloom.ChainLink) bool { return a.Seq == b.Seq })
	return slices.DeleteFunc(links, func(l bloom.ChainLink) bool { return l.Seq > upto })
}
