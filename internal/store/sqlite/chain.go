package sqlite

import (
	"context"
	"errors"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/audit"
	"github.com/bloom-runtime/bloom/internal/store"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

// chain is the writer's state of the audit's hash chain. Once all entries are
// chained, each commit chains its own, because no other process can add one.
type chain struct {
	head  bloom.ChainHead
	whole bool // all entries are chained
}

func (d *database) openChain() (err error) {
	if d.chain.head, err = store.Head(background, d.write); err == nil {
		d.chain.whole, err = d.write.chained(d.chain.head)
	}
	return err
}

// chained reports whether no entry comes after the head.
func (c *conn) chained(head bloom.ChainHead) (bool, error) {
	last, err := c.number(`SELECT MAX(seq) FROM audit_logs`)
	return last <= head.Seq, err
}

// Chain reads the audit entries to chain next.
func (t *tx) Chain(l *store.Load, v *store.Values[struct{}, *store.Chain]) {
	c := &store.Chain{Head: t.d.chain.head}
	if v.Set(struct{}{}, c); t.d.chain.whole {
		return
	}
	l.Each(func(r store.Row) error {
		var a bloom.Audit
		err := r.Scan(store.AuditFields(&a)...)
		c.Unsealed = append(c.Unsealed, a)
		return err
	}, `SELECT `+store.AuditColumns+` FROM audit_logs a WHERE a.seq > ? ORDER BY a.seq LIMIT +?`, c.Head.Seq, v.Want[struct{}{}])
}

// numbered is the layout of audit entries with their numbers; nil: the next one.
var numbered = &store.Layout{Table: store.Audits.Table, Columns: append([]string{"seq bigint"}, store.Audits.Columns...)}

// putAudits inserts entries, and chains them if all entries before them are chained.
func (t *tx) putAudits(c *store.Changes) error {
	if t.d.chain.whole && c.Head == nil && len(c.Audits) > 0 {
		for i := range c.Audits {
			c.Audits[i].Seq = t.d.chain.head.Seq + int64(i) + 1
		}
		head, links := store.Links(t.d.chain.head, c.Audits)
		c.Head, c.Links, c.Sealed = &head, links, true
	}
	w := store.AuditWrite(c)
	for i, row := range w.Rows {
		seq := any(nil)
		if n := c.Audits[i].Seq; n != 0 {
			seq = n
		}
		w.Rows[i] = append([]any{seq}, row...)
	}
	w.Layout = numbered
	return t.insert(w)
}

// noteChain sets the state of the chain after this commit.
func (t *tx) noteChain(c *store.Changes) error {
	if c.Head == nil {
		return nil
	}
	whole, err := t.d.chain.whole, error(nil)
	if !whole {
		whole, err = t.chained(*c.Head)
	}
	t.chain = &chain{*c.Head, whole}
	return err
}

// Audit reads the audit of a database, even while a server has it open. It must not
// be used by several goroutines at once.
type Audit struct{ c *conn }

// OpenAudit opens the database at path for reading only.
func OpenAudit(path string) (*Audit, error) {
	c, err := dial(dsn(path, "ro"), readerPragmas...)
	if err != nil {
		return nil, err
	}
	return &Audit{c}, nil
}

// AuditLinks is Store.AuditLinks.
func (a *Audit) AuditLinks(ctx context.Context, after int64, limit int) (head bloom.ChainHead, prev audit.Link, links []audit.Link, err error) {
	if err = ctx.Err(); err == nil {
		_, err = a.c.exec("BEGIN")
	}
	if err != nil {
		return head, prev, nil, err
	}
	head, prev, links, err = store.ReadLinks(ctx, a.c, after, limit)
	_, end := a.c.exec("COMMIT")
	return head, prev, links, errors.Join(err, end)
}

// AuditExport returns how far the audit was exported.
func (a *Audit) AuditExport(ctx context.Context) (contract.AuditExport, error) {
	if err := ctx.Err(); err != nil {
		return contract.AuditExport{}, err
	}
	return store.ReadExport(ctx, a.c)
}

// Close closes the database.
func (a *Audit) Close() { _ = a.c.close() }
