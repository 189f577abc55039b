package sqlite

import (
	"context"
	"encoding/hex"
	"errors"
	"math"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/store"
)

// chain is what the only writer knows of the audit's chain. Once all entries are
// chained, each commit chains its own: nobody else can add one.
type chain struct {
	head  bloom.ChainHead
	whole bool // all entries are chained
}

func (d *database) openChain() (err error) {
	if d.chain.head, err = readHead(d.write); err == nil {
		d.chain.whole, err = d.write.chained(d.chain.head)
	}
	return err
}

func readHead(c *conn) (bloom.ChainHead, error) {
	r, _, err := c.one(`SELECT seq, hash FROM audit_head`)
	if err != nil {
		return bloom.ChainHead{}, err
	}
	return bloom.ChainHead{Seq: r.int(0), Hash: r.hex(1)}, nil
}

// chained reports whether no entry comes after the head.
func (c *conn) chained(head bloom.ChainHead) (bool, error) {
	last, err := c.number(`SELECT MAX(seq) FROM audit_logs`)
	return last <= head.Seq, err
}

const auditColumns = `a.seq, a.id, a.timestamp, a.action, a.entity_type, a.entity_id, a.actor, a.detail, a.data, a.key_id, a.address`

func scanAudit(r row) bloom.Audit {
	return bloom.Audit{
		Seq: r.int(0), ID: r.str(1), Timestamp: r.int(2), Action: r.str(3), EntityType: r.str(4), EntityID: r.str(5),
		Actor: r.str(6), Detail: r.str(7), Data: []byte(r.str(8)), KeyID: r.str(9), Address: r.str(10),
	}
}

func (t *tx) loadChain(want *store.ReadSet, rows *store.Rows) error {
	if want.Export {
		r, ok, err := t.one(`SELECT exported, hash, planned, branch FROM audit_export`)
		if err != nil {
			return err
		}
		if ok {
			rows.Export = &bloom.AuditExport{Exported: r.int(0), Hash: r.str(1), Planned: r.int(2), Branch: int(r.int(3))}
		}
	}
	if want.Unsealed == 0 {
		return nil
	}
	rows.Chain = &store.Chain{Head: t.d.chain.head}
	if t.d.chain.whole {
		return nil
	}
	return t.each(`SELECT `+auditColumns+` FROM audit_logs a WHERE a.seq > ? ORDER BY a.seq LIMIT +?`, func(r row) error {
		rows.Chain.Unsealed = append(rows.Chain.Unsealed, scanAudit(r))
		return nil
	}, rows.Chain.Head.Seq, want.Unsealed)
}

var (
	insertAudits = newInserts("audit_logs", "seq, id, timestamp, action, entity_type, entity_id, actor, detail, data, key_id, address")
	insertLinks  = newInserts("audit_chain", "seq, hash")
)

// putAudits writes entries and, as soon as all before them are, chains them.
func (t *tx) putAudits(c *store.Changes) error {
	if len(c.Audits) == 0 {
		return nil
	}
	whole := t.d.chain.whole && c.Head == nil
	rows := make([]any, 0, len(c.Audits)*insertAudits.width)
	for i := range c.Audits {
		a, seq := &c.Audits[i], any(nil)
		if whole {
			a.Seq = t.d.chain.head.Seq + int64(i) + 1
			seq = a.Seq
		}
		rows = append(rows, seq, a.ID, a.Timestamp, a.Action, a.EntityType, a.EntityID, a.Actor, a.Detail, string(a.Data), a.KeyID, a.Address)
	}
	if whole {
		head, links := store.Links(t.d.chain.head, c.Audits)
		c.Head, c.Links, c.Sealed = &head, links, true
	}
	return insertAudits.run(t, rows)
}

func (t *tx) putChain(c *store.Changes) error {
	if e := c.Export; e != nil {
		if err := t.set(`UPDATE audit_export SET exported = ?, hash = ?, planned = ?, branch = ?`, e.Exported, e.Hash, e.Planned, e.Branch); err != nil {
			return err
		}
	}
	if c.Head == nil {
		return nil
	}
	rows := make([]any, 0, 2*len(c.Links))
	for _, l := range c.Links {
		rows = append(rows, l.Seq, unhex(l.Hash))
	}
	if err := insertLinks.run(t, rows); err != nil {
		return err
	}
	if err := t.set(`UPDATE audit_head SET seq = ?, hash = ?`, c.Head.Seq, unhex(c.Head.Hash)); err != nil {
		return err
	}
	whole, err := t.d.chain.whole, error(nil)
	if !whole {
		whole, err = t.chained(*c.Head)
	}
	t.chain = &chain{*c.Head, whole}
	return err
}

// unhex is a hash as it is stored.
func unhex(hash string) []byte {
	raw, _ := hex.DecodeString(hash)
	return raw
}

// removeAudit removes entries. The hash of one whose next entry stays is kept, for
// that one's hash covers it.
func (t *tx) removeAudit(c *store.Changes) error {
	gone := c.Removal.Audit
	if len(gone) == 0 {
		return nil
	}
	list := string(bloom.MustJSON(gone))
	first, last := gone[0], gone[0]
	for _, seq := range gone {
		first, last = min(first, seq), max(last, seq)
	}
	for _, s := range []struct {
		query string
		args  []any
	}{
		{`DELETE FROM audit_logs WHERE seq IN (SELECT value FROM json_each(?))`, []any{list}},
		{`UPDATE audit_chain SET removed_at = ? WHERE seq IN (SELECT value FROM json_each(?))`, []any{c.Now, list}},
		{`DELETE FROM audit_chain WHERE seq IN (SELECT c.seq FROM audit_chain c WHERE c.seq <= ?2
				AND c.seq >= COALESCE((SELECT MAX(b.seq) FROM audit_chain b WHERE b.seq < ?1), 0) AND c.removed_at IS NOT NULL
				AND (SELECT n.removed_at FROM audit_chain n WHERE n.seq > c.seq ORDER BY n.seq LIMIT 1) IS NOT NULL)`, []any{first, last}},
	} {
		if _, err := t.exec(s.query, s.args...); err != nil {
			return err
		}
	}
	return nil
}

// AuditHead is the last entry of the chain.
func (d *database) AuditHead(ctx context.Context) (bloom.ChainHead, error) {
	return read(ctx, d, readHead)
}

type auditPage struct {
	head  bloom.ChainHead
	prev  bloom.ChainLink
	links []bloom.ChainLink
}

// AuditLinks lists the chain, the oldest first.
func (d *database) AuditLinks(ctx context.Context, after int64, limit int) (bloom.ChainHead, bloom.ChainLink, []bloom.ChainLink, error) {
	p, err := read(ctx, d, func(c *conn) (auditPage, error) { return readLinks(c, after, limit) })
	return p.head, p.prev, p.links, err
}

func readLinks(c *conn, after int64, limit int) (p auditPage, err error) {
	if p.head, err = readHead(c); err != nil {
		return p, err
	}
	p.prev.Hash = bloom.NoHash
	r, ok, err := c.one(`SELECT seq, hash, removed_at FROM audit_chain WHERE seq <= ? ORDER BY seq DESC LIMIT 1`, after)
	if err != nil {
		return p, err
	}
	if ok {
		p.prev = bloom.ChainLink{Seq: r.int(0), Hash: r.hex(1), Removed: r.int(2)}
	}
	var entries, bare []bloom.ChainLink
	err = c.each(`SELECT `+auditColumns+`, c.hash FROM audit_logs a LEFT JOIN audit_chain c ON c.seq = a.seq WHERE a.seq > ? ORDER BY a.seq LIMIT +?`, func(r row) error {
		a := scanAudit(r)
		a.Hash = r.hex(11)
		entries = append(entries, bloom.ChainLink{Seq: a.Seq, Hash: a.Hash, Entry: &a})
		return nil
	}, after, limit)
	if err != nil {
		return p, err
	}
	upto := int64(math.MaxInt64)
	if len(entries) == limit {
		upto = entries[limit-1].Seq
	}
	err = c.each(`SELECT c.seq, c.hash, c.removed_at FROM audit_chain c WHERE c.seq > ? AND c.seq <= ?
		AND NOT EXISTS (SELECT 1 FROM audit_logs a WHERE a.seq = c.seq) ORDER BY c.seq LIMIT +?`, func(r row) error {
		bare = append(bare, bloom.ChainLink{Seq: r.int(0), Hash: r.hex(1), Removed: r.int(2)})
		return nil
	}, after, upto, limit)
	p.links = store.MergeLinks(entries, bare, limit)
	return p, err
}

// AuditLag tells how far chain and export are behind.
func (d *database) AuditLag(ctx context.Context) (bloom.AuditLag, error) {
	return read(ctx, d, func(c *conn) (lag bloom.AuditLag, err error) {
		now := bloom.Millis(d.cfg.Clock.Now())
		r, _, err := c.one(`SELECT (SELECT a.timestamp FROM audit_logs a WHERE a.seq > h.seq ORDER BY a.seq LIMIT 1),
			(SELECT a.timestamp FROM audit_logs a WHERE a.seq > e.exported ORDER BY a.seq LIMIT 1), MAX(0, h.seq - e.exported), e.exported
			FROM audit_head h, audit_export e`)
		if err != nil {
			return lag, err
		}
		return bloom.AuditLag{Unchained: store.Since(now, r.intp(0)), Unexported: store.Since(now, r.intp(1)), ToExport: r.int(2), LastExported: r.int(3)}, nil
	})
}

// hex is a hash as others see it; empty for NULL.
func (r row) hex(i int) string {
	raw, _ := r[i].([]byte)
	return hex.EncodeToString(raw)
}

// Audit reads the audit of a database, also while a server has it open. One goroutine
// may use it.
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
func (a *Audit) AuditLinks(ctx context.Context, after int64, limit int) (head bloom.ChainHead, prev bloom.ChainLink, links []bloom.ChainLink, err error) {
	if err = ctx.Err(); err == nil {
		_, err = a.c.exec("BEGIN")
	}
	if err != nil {
		return head, prev, nil, err
	}
	p, err := readLinks(a.c, after, limit)
	_, end := a.c.exec("COMMIT")
	return p.head, p.prev, p.links, errors.Join(err, end)
}

// AuditExported is the number of the last entry that was exported.
func (a *Audit) AuditExported(ctx context.Context) (int64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	return a.c.number(`SELECT exported FROM audit_export`)
}

// Close ends it.
func (a *Audit) Close() { _ = a.c.close() }
