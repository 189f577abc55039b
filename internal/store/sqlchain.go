package store

import (
	"cmp"
	"context"
	"errors"
	"math"

	"github.com/bloom-runtime/bloom"
)

// errNoHead means that the database was tampered with.
var errNoHead = errors.New("the table audit_head is empty")

// Head reads the head of the audit's hash chain.
func Head(ctx context.Context, c Conn) (bloom.ChainHead, error) {
	return One(ctx, c, func(h *bloom.ChainHead) []any { return []any{&h.Seq, (*Hash)(&h.Hash)} }, errNoHead, `SELECT seq, hash FROM audit_head`)
}

// AuditHead reads the head of the audit's hash chain.
func (r *Reads) AuditHead(ctx context.Context) (bloom.ChainHead, error) {
	return Read(ctx, r.Source, func(c Conn) (bloom.ChainHead, error) { return Head(ctx, c) })
}

// AuditLinks lists the chain, the oldest link first, from one snapshot: retention may
// remove entries meanwhile.
func (r *Reads) AuditLinks(ctx context.Context, after int64, limit int) (head bloom.ChainHead, prev bloom.ChainLink, links []bloom.ChainLink, err error) {
	err = r.Source.Snapshot(ctx, func(c Conn) (err error) {
		head, prev, links, err = ReadLinks(ctx, c, after, limit)
		return err
	})
	return head, prev, links, err
}

const selectLink = `SELECT c.seq, c.hash, coalesce(c.removed_at, 0) FROM audit_chain c`

func linkFields(l *bloom.ChainLink) []any { return []any{&l.Seq, (*Hash)(&l.Hash), &l.Removed} }

// ReadLinks lists the chain. c must read from one snapshot.
func ReadLinks(ctx context.Context, c Conn, after int64, limit int) (head bloom.ChainHead, prev bloom.ChainLink, links []bloom.ChainLink, err error) {
	if head, err = Head(ctx, c); err != nil {
		return head, prev, nil, err
	}
	if prev, err = One(ctx, c, linkFields, nil, selectLink+` WHERE c.seq <= $1 ORDER BY c.seq DESC LIMIT 1`, after); err != nil {
		return head, prev, nil, err
	}
	prev.Hash = cmp.Or(prev.Hash, bloom.NoHash)
	entries, err := Collect(ctx, c, func(l *bloom.ChainLink) []any {
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

func exportFields(e *bloom.AuditExport) []any {
	return []any{&e.Exported, &e.Hash, &e.Planned, &e.Branch}
}

const selectExport = `SELECT e.exported, e.hash, e.planned, e.branch FROM audit_export e`

// ReadExport reads how far the audit was exported.
func ReadExport(ctx context.Context, c Conn) (bloom.AuditExport, error) {
	return One(ctx, c, exportFields, nil, selectExport)
}

// AuditLag reads how far the chain and the export are behind.
func (r *Reads) AuditLag(ctx context.Context) (bloom.AuditLag, error) {
	return Read(ctx, r.Source, func(c Conn) (lag bloom.AuditLag, err error) {
		now, err := r.Source.Time(ctx, c)
		if err != nil {
			return lag, err
		}
		type row struct {
			bloom.AuditLag
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
