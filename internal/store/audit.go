package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/audit"
	"github.com/bloom-runtime/bloom/internal/retry"
	"github.com/bloom-runtime/bloom/internal/storable"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

// Chain is the locked head of the audit's hash chain and the entries to chain next.
// Entries are chained in the order of their numbers, each once no entry with a lower
// number can be committed any more.
type Chain struct {
	Head     bloom.ChainHead
	Unsealed []bloom.Audit
	// Blocked: more entries wait, but another process may still commit one with a lower
	// number.
	Blocked bool
}

var (
	chains  = derived[struct{}, *Chain]()                // the head and the entries to chain next; nil: another transaction has locked it
	exports = derived[struct{}, *contract.AuditExport]() // how far the audit was exported; nil: another transaction has locked it
)

// Audits is the layout of audit entries.
var Audits = layout("audit_logs", "id uuid, timestamp bigint, action text, entity_type text, entity_id text, actor text, detail text, data json, key_id text, address text", Insert)

func auditValues(v []any, a bloom.Audit) []any {
	return append(v, a.ID, a.Timestamp, a.Action, a.EntityType, a.EntityID, a.Actor, a.Detail, string(a.Data), a.KeyID, a.Address)
}

// AuditColumns are the columns of an audit entry, a.
const AuditColumns = `a.seq, a.id, a.timestamp, a.action, a.entity_type, a.entity_id, a.actor, a.detail, a.data, a.key_id, a.address`

// AuditFields returns the destinations of AuditColumns.
func AuditFields(a *bloom.Audit) []any {
	return []any{&a.Seq, &a.ID, &a.Timestamp, &a.Action, &a.EntityType, &a.EntityID, &a.Actor, &a.Detail, (*verbatim)(&a.Data), &a.KeyID, &a.Address}
}

var linkLayout = layout("audit_chain", "seq bigint, hash bytea", Insert)

func linkValues(v []any, l Link) []any { return append(v, l.Seq, Unhex(l.Hash)) }

// loadExport reads how far the audit was exported, unless it is locked.
func loadExport(l *Load, v *Values[struct{}, *contract.AuditExport]) {
	l.Each(scan(exportFields, func(e *contract.AuditExport) { v.Set(one, e) }), selectExport+l.lock("e"))
}

// Link is the hash of an entry of the audit.
type Link struct {
	Seq  int64
	Hash string
}

// Links chains entries to a head and returns the new head.
func Links(head bloom.ChainHead, entries []bloom.Audit) (bloom.ChainHead, []Link) {
	links := make([]Link, 0, len(entries))
	for _, a := range entries {
		head = audit.NextHead(head, a)
		links = append(links, Link(head))
	}
	return head, links
}

// "Sealing" is adding committed entries to the hash chain.
const (
	sealBatch = 1000 // entries in one transaction
	// sealDelay is how long a committed entry waits, so that one transaction seals many.
	sealDelay      = 150 * time.Millisecond
	sealBusyPause  = 25 * time.Millisecond // when another process blocks the sealing
	sealAtClose    = 2 * time.Second       // limit for the last batch when the store closes
	sealPauseRatio = 3                     // pause after a full batch, as a multiple of its time
)

var sealRetry = retry.Policy{First: time.Second, Max: 30 * time.Second, Jitter: 0.2}

// sealing is the outcome of one sealing transaction.
type sealing struct {
	sealed  int
	blocked bool // by another process
}

// Seal chains a batch of unchained entries and returns how many.
func (s *Store) Seal(ctx context.Context) (int, error) {
	done, err := s.seal(ctx)
	return done.sealed, err
}

func (s *Store) seal(ctx context.Context) (sealing, error) {
	s.sealing.Lock()
	defer s.sealing.Unlock()
	return doUnbatched(ctx, s, func(r *Rows) { chains.wantUpTo(r, one, sealBatch) }, func(u *Unit) (sealing, error) {
		c, err := chains.get(u, one)
		if c == nil {
			return sealing{blocked: true}, err
		}
		if len(c.Unsealed) > 0 {
			u.changed()
			head, links := Links(c.Head, c.Unsealed)
			u.c.Head, u.c.Links = &head, links
		}
		return sealing{len(c.Unsealed), c.Blocked}, nil
	})
}

// sealTo chains entries up to seq, as far as possible. Only chained entries may be
// removed.
func (s *Store) sealTo(ctx context.Context, seq int64) error {
	for {
		head, err := s.AuditHead(ctx)
		if err != nil || head.Seq >= seq {
			return err
		}
		if done, err := s.seal(ctx); err != nil || done.sealed == 0 {
			return err
		}
	}
}

// sealLoop chains committed entries until the store closes.
func (s *Store) sealLoop() {
	defer close(s.sealed)
	fails, pause, busy := sealRetry.Waits(), time.Duration(0), true
	for s.waitToSeal(pause, busy) {
		began := time.Now()
		done, err := s.seal(s.life)
		switch {
		case err != nil: // the store has logged it
			pause, busy = fails(), true
			continue
		case done.blocked:
			pause, busy = sealBusyPause, true
		case done.sealed == sealBatch:
			pause, busy = sealPauseRatio*time.Since(began), true
		default:
			pause, busy = s.cfg.SealPoll, false
		}
		fails = sealRetry.Waits()
	}
	select {
	case <-s.unsealed: // else another process, or the next start, chains it
		ctx, cancel := context.WithTimeout(s.life, sealAtClose)
		defer cancel()
		_, _ = s.seal(ctx)
	default:
	}
}

// waitToSeal waits until it is time for the next batch: for pause if busy, else for a
// commit, or for pause if it is not 0. It returns false when the store closes.
func (s *Store) waitToSeal(pause time.Duration, busy bool) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	elapsed, wake := timer.C, s.unsealed
	switch {
	case busy:
		wake = nil
	case pause == 0:
		elapsed = nil
	}
	select {
	case <-elapsed:
	case <-s.closing:
		return false
	case <-wake:
		timer.Reset(sealDelay)
		select {
		case <-timer.C:
		case <-s.closing:
			s.wakeSealing() // for the last batch
			return false
		}
	}
	return true
}

// wakeSealing wakes sealLoop after a commit.
func (s *Store) wakeSealing() {
	select {
	case s.unsealed <- struct{}{}:
	default:
	}
}

// AuditExport returns how far the audit was exported.
func (s *Store) AuditExport(ctx context.Context) (contract.AuditExport, error) {
	return do(ctx, s, func(r *Rows) { exports.want(r, one) }, (*Unit).exported)
}

// exported is how far the audit was exported, under its lock.
func (u *Unit) exported() (contract.AuditExport, error) {
	is, err := exports.get(u, one)
	switch {
	case err != nil:
		return contract.AuditExport{}, err
	case is == nil:
		return contract.AuditExport{}, u.stop(findsLocked)
	}
	return *is, nil
}

// SetAuditExport records how far the audit was exported. It fails with a conflict if
// that is no longer was.
func (s *Store) SetAuditExport(ctx context.Context, was, is contract.AuditExport) error {
	_, err := do(ctx, s, func(r *Rows) { exports.want(r, one) }, func(u *Unit) (struct{}, error) {
		switch now, err := u.exported(); {
		case err != nil:
			return struct{}{}, err
		case now == is: // by an earlier attempt with an unknown commit
			return struct{}{}, nil
		case now != was:
			return struct{}{}, bloom.Conflict("Another process has exported the audit in the meantime")
		}
		u.changed()
		u.c.Export = &is
		exports.set(u, one, &is)
		if is.Branch != was.Branch {
			u.audit(audit.ActionAuditForked, audit.EntityAudit, "export", audit.ActorAuditExport,
				fmt.Sprintf("Exported files hold entries after %d that the database does not have: a backup was restored. New entries go to files of a new branch", is.Exported),
				storable.MustJSON(map[string]int64{"after": is.Exported, "branch": int64(is.Branch)}))
		}
		return struct{}{}, nil
	})
	return err
}

// Since returns the time from at to now, both in Unix milliseconds; 0 if at is nil.
func Since(now int64, at *int64) time.Duration {
	if at == nil {
		return 0
	}
	return max(time.Duration(now-*at)*time.Millisecond, time.Millisecond)
}

// MergeLinks merges a page of audit entries with the links of removed entries (bare),
// in the order of Seq, up to where both pages reach. An entry takes precedence over a
// bare link.
func MergeLinks(entries, bare []audit.Link, limit int) []audit.Link {
	upto := int64(math.MaxInt64)
	for _, read := range [][]audit.Link{entries, bare} {
		if len(read) == limit {
			upto = min(upto, read[limit-1].Seq)
		}
	}
	links := slices.Concat(entries, bare)
	slices.SortStableFunc(links, func(a, b audit.Link) int { return cmp.Compare(a.Seq, b.Seq) })
	links = slices.CompactFunc(links, func(a, b audit.Link) bool { return a.Seq == b.Seq })
	return slices.DeleteFunc(links, func(l audit.Link) bool { return l.Seq > upto })
}

// AuditWrite returns the write of a transaction's audit entries.
func AuditWrite(c *Changes) Write { return written(Audits, c.Audits, auditValues) }

// commonActions are those of every task; no index has them.
var commonActions = []string{audit.ActionTaskCreated, audit.ActionTaskLeased, audit.ActionTaskStarted, audit.ActionTaskCompleted}

// Audit lists audit entries, the newest first.
func (s *Store) Audit(ctx context.Context, q bloom.AuditQuery) ([]bloom.Audit, bloom.Cursor, error) {
	l := &listing[bloom.Audit]{
		from: "audit_logs", as: "a", columns: AuditColumns + `, (SELECT c.hash FROM audit_chain c WHERE c.seq = a.seq)`,
		fields: func(a *bloom.Audit) []any { return append(AuditFields(a), (*Hash)(&a.Hash)) },
	}
	l.also("a.entity_id", q.EntityID)
	switch {
	case q.Action == "":
	case slices.Contains(commonActions, q.Action) || l.by != "":
		l.only("a.action", q.Action)
	default:
		l.first("a.action NOT IN ('task_created','task_leased','task_started','task_completed') AND a.action = %s", q.Action)
	}
	return list(ctx, s, l, q.Page)
}

// errNoHead means that the database was tampered with.
var errNoHead = errors.New("the table audit_head is empty")

// Head reads the head of the audit's hash chain.
func Head(ctx context.Context, c Conn) (bloom.ChainHead, error) {
	return One(ctx, c, func(h *bloom.ChainHead) []any { return []any{&h.Seq, (*Hash)(&h.Hash)} }, errNoHead, `SELECT seq, hash FROM audit_head`)
}

// AuditHead reads the head of the audit's hash chain.
func (s *Store) AuditHead(ctx context.Context) (bloom.ChainHead, error) {
	return Read(ctx, s.db, func(c Conn) (bloom.ChainHead, error) { return Head(ctx, c) })
}

// AuditLinks lists the chain, the oldest link first, from one snapshot: retention may
// remove entries meanwhile.
func (s *Store) AuditLinks(ctx context.Context, after int64, limit int) (head bloom.ChainHead, prev audit.Link, links []audit.Link, err error) {
	err = s.db.Snapshot(ctx, func(c Conn) (err error) {
		head, prev, links, err = ReadLinks(ctx, c, after, limit)
		return err
	})
	return head, prev, links, err
}

const selectLink = `SELECT c.seq, c.hash, coalesce(c.removed_at, 0) FROM audit_chain c`

func linkFields(l *audit.Link) []any { return []any{&l.Seq, (*Hash)(&l.Hash), &l.Removed} }

// ReadLinks lists the chain. c must read from one snapshot.
func ReadLinks(ctx context.Context, c Conn, after int64, limit int) (head bloom.ChainHead, prev audit.Link, links []audit.Link, err error) {
	if head, err = Head(ctx, c); err != nil {
		return head, prev, nil, err
	}
	if prev, err = One(ctx, c, linkFields, nil, selectLink+` WHERE c.seq <= $1 ORDER BY c.seq DESC LIMIT 1`, after); err != nil {
		return head, prev, nil, err
	}
	prev.Hash = cmp.Or(prev.Hash, audit.NoHash)
	entries, err := Collect(ctx, c, func(l *audit.Link) []any {
		l.Entry = &bloom.Audit{}
		return append(AuditFields(l.Entry), (*Hash)(&l.Hash))
	}, `SELECT `+AuditColumns+`, c.hash FROM audit_logs a LEFT JOIN audit_chain c ON c.seq = a.seq WHERE a.seq > $1 ORDER BY a.seq LIMIT CAST($2 AS BIGINT)`,
		after, limit)
	if err != nil {
		return head, prev, nil, err
	}
	for i := range entries {
		l := &entries[i]
		l.Seq, l.Entry.Hash = l.Entry.Seq, l.Hash
	}
	upto := int64(math.MaxInt64)
	if len(entries) == limit {
		upto = entries[limit-1].Seq
	}
	bare, err := Collect(ctx, c, linkFields, selectLink+` WHERE c.seq > $1 AND c.seq <= $2 AND NOT EXISTS (SELECT 1 FROM audit_logs a WHERE a.seq = c.seq)
		ORDER BY c.seq LIMIT CAST($3 AS BIGINT)`, after, upto, limit)
	return head, prev, MergeLinks(entries, bare, limit), err
}

func exportFields(e *contract.AuditExport) []any {
	return []any{&e.Exported, &e.Hash, &e.Planned, &e.Branch}
}

const selectExport = `SELECT e.exported, e.hash, e.planned, e.branch FROM audit_export e`

// ReadExport reads how far the audit was exported.
func ReadExport(ctx context.Context, c Conn) (contract.AuditExport, error) {
	return One(ctx, c, exportFields, nil, selectExport)
}

// AuditLag reads how far the chain and the export are behind.
func (s *Store) AuditLag(ctx context.Context) (contract.AuditLag, error) {
	return Read(ctx, s.db, func(c Conn) (lag contract.AuditLag, err error) {
		now, err := s.db.Time(ctx, c)
		if err != nil {
			return lag, err
		}
		type row struct {
			contract.AuditLag
			unchained, unexported *int64
		}
		got, err := One(ctx, c, func(l *row) []any { return []any{&l.unchained, &l.unexported, &l.ToExport, &l.LastExported, &l.Branch} }, nil,
			`SELECT (SELECT a.timestamp FROM audit_logs a WHERE a.seq > h.seq ORDER BY a.seq LIMIT 1),
				(SELECT a.timestamp FROM audit_logs a WHERE a.seq > e.exported ORDER BY a.seq LIMIT 1),
				CASE WHEN h.seq > e.exported THEN h.seq - e.exported ELSE 0 END, e.exported, e.branch FROM audit_head h, audit_export e`)
		got.Unchained, got.Unexported = Since(now, got.unchained), Since(now, got.unexported)
		return got.AuditLag, err
	})
}
