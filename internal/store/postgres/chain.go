package postgres

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"math"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/store"
)

// gaps tells which numbers in the audit, that were taken and are not there, will never
// be: those of transactions that were undone. Who takes a number has locked the table
// before, and unlocks it after its entry can be seen. So once everybody who had the
// table locked at one moment has unlocked it, what was missing at that moment is there
// or never comes. The numbers of transactions do not tell: a crash or a restored backup
// forgets them. See docs/adr/0010.
type gaps struct {
	mu      sync.Mutex
	settled int64               // up to here what is not there never comes
	upto    int64               // the same once holders is empty; 0: nobody has asked
	holders map[string]struct{} // transactions under way
}

// settle finds out whether the gaps below a number that is there are settled. It can be
// asked again and again.
func (g *gaps) settle(ctx context.Context, c *pgx.Conn, upto int64) (bool, error) {
	under, err := collect(ctx, c, scanText, `SELECT virtualtransaction FROM pg_locks WHERE locktype = 'relation' AND mode = 'RowExclusiveLock'
		AND relation = 'audit_logs'::regclass AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) AND pid <> pg_backend_pid()`)
	if err != nil {
		return false, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	now := make(map[string]struct{}, len(under))
	for _, one := range under {
		if _, before := g.holders[one]; before || g.upto == 0 {
			now[one] = struct{}{}
		}
	}
	if g.upto == 0 {
		g.upto = upto
	}
	if g.holders = now; len(now) > 0 {
		return false, nil
	}
	g.settled, g.upto = max(g.settled, g.upto), 0
	return true, nil
}

// run is the beginning of the entries after a place in which nothing is missing that
// may still come.
func (g *gaps) run(after int64, entries []bloom.Audit) []bloom.Audit {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i, a := range entries {
		if a.Seq != after+1 && a.Seq > g.settled {
			return entries[:i]
		}
		after = a.Seq
	}
	return entries
}

// chain reads what of the audit is to be chained next, when nobody else is at it.
func (t *tx) chain(ctx context.Context, most int, rows *store.Rows) error {
	var raw []byte
	c := &store.Chain{}
	err := t.c.QueryRow(ctx, `SELECT seq, hash FROM audit_head FOR UPDATE SKIP LOCKED`).Scan(&c.Head.Seq, &raw)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	c.Head.Hash = hex.EncodeToString(raw)
	var next []bloom.Audit
	for tries := 0; err == nil && tries < 2; tries++ {
		if next, err = t.unsealed(ctx, c.Head.Seq, most); err != nil {
			break
		}
		c.Unsealed = t.d.gaps.run(c.Head.Seq, next)
		if len(next) == 0 || len(c.Unsealed) > 0 || tries > 0 {
			break
		}
		var settled bool
		if settled, err = t.d.gaps.settle(ctx, t.c, next[len(next)-1].Seq); !settled {
			break // else what was missing may be there now
		}
	}
	c.Doubt = len(c.Unsealed) < len(next)
	rows.Chain = c
	return err
}

func (t *tx) unsealed(ctx context.Context, after int64, most int) ([]bloom.Audit, error) {
	return collect(ctx, t.c, scanAudit, `SELECT `+auditColumns+` FROM audit_logs a WHERE a.seq > $1 ORDER BY a.seq LIMIT $2`, after, most)
}

const auditColumns = `a.seq, a.id, a.timestamp, a.action, a.entity_type, a.entity_id, a.actor, a.detail, a.data, a.key_id, a.address`

func auditFields(a *bloom.Audit) []any {
	return []any{&a.Seq, &a.ID, &a.Timestamp, &a.Action, &a.EntityType, &a.EntityID, &a.Actor, &a.Detail, (*verbatim)(&a.Data), &a.KeyID, &a.Address}
}

func scanAudit(r pgx.Rows) (a bloom.Audit, err error) {
	err = r.Scan(auditFields(&a)...)
	return a, err
}

// export reads how far the audit was exported, when nobody else is at it.
func (l *loader) export() {
	if l.want.Export {
		l.each(func(r pgx.Rows) error {
			l.rows.Export = &bloom.AuditExport{}
			return r.Scan(&l.rows.Export.Exported, &l.rows.Export.Hash, &l.rows.Export.Planned, &l.rows.Export.Branch)
		}, `SELECT exported, hash, planned, branch FROM audit_export FOR UPDATE SKIP LOCKED`)
	}
}

func queueChain(b *pgx.Batch, c *store.Changes) {
	if e := c.Export; e != nil {
		b.Queue(`UPDATE audit_export SET exported = $1, hash = $2, planned = $3, branch = $4`, e.Exported, e.Hash, e.Planned, e.Branch)
	}
	if c.Head == nil {
		return
	}
	seqs, hashes := make([]int64, len(c.Links)), make([][]byte, len(c.Links))
	for i, l := range c.Links {
		seqs[i], hashes[i] = l.Seq, unhex(l.Hash)
	}
	b.Queue(`INSERT INTO audit_chain (seq, hash) SELECT s, h FROM unnest($1::bigint[], $2::bytea[]) x (s, h)`, seqs, hashes)
	b.Queue(`UPDATE audit_head SET seq = $1, hash = $2`, c.Head.Seq, unhex(c.Head.Hash))
}

// unhex is a hash as it is stored.
func unhex(hash string) []byte {
	raw, _ := hex.DecodeString(hash)
	return raw
}

// queueAuditRemoval removes entries. The hash of one whose next entry stays is kept,
// for that one's hash covers it.
func queueAuditRemoval(b *pgx.Batch, c *store.Changes) {
	gone := c.Removal.Audit
	if len(gone) == 0 {
		return
	}
	first, last := gone[0], gone[0]
	for _, seq := range gone {
		first, last = min(first, seq), max(last, seq)
	}
	b.Queue(`DELETE FROM audit_logs WHERE seq = ANY($1::bigint[])`, gone)
	b.Queue(`UPDATE audit_chain SET removed_at = $2 WHERE seq = ANY($1::bigint[])`, gone, c.Now)
	b.Queue(`DELETE FROM audit_chain c WHERE c.seq <= $2 AND c.seq >= coalesce((SELECT b.seq FROM audit_chain b WHERE b.seq < $1 ORDER BY b.seq DESC LIMIT 1), 0)
		AND c.removed_at IS NOT NULL AND (SELECT n.removed_at FROM audit_chain n WHERE n.seq > c.seq ORDER BY n.seq LIMIT 1) IS NOT NULL`, first, last)
}

func scanHead(r pgx.Rows) (h bloom.ChainHead, err error) {
	var raw []byte
	err = r.Scan(&h.Seq, &raw)
	h.Hash = hex.EncodeToString(raw)
	return h, err
}

const selectHead = `SELECT seq, hash FROM audit_head`

// errNoHead: only tampering takes the row away.
var errNoHead = errors.New("postgresql: the table audit_head is empty")

// AuditHead is the last entry of the chain.
func (d *database) AuditHead(ctx context.Context) (bloom.ChainHead, error) {
	return read(ctx, d, func(c reader) (bloom.ChainHead, error) { return found(ctx, c, scanHead, errNoHead, selectHead) })
}

type auditPage struct {
	head  bloom.ChainHead
	prev  bloom.ChainLink
	links []bloom.ChainLink
}

// AuditLinks lists the chain, the oldest first.
func (d *database) AuditLinks(ctx context.Context, after int64, limit int) (bloom.ChainHead, bloom.ChainLink, []bloom.ChainLink, error) {
	p, err := read(ctx, d, func(reader) (auditPage, error) { return readLinks(ctx, d.reads, after, limit) })
	return p.head, p.prev, p.links, err
}

// beginner is a connection, or a pool of them, that begins transactions.
type beginner interface {
	BeginTx(ctx context.Context, options pgx.TxOptions) (pgx.Tx, error)
}

// readLinks reads all in one snapshot: retention may remove meanwhile, and entries of
// one moment do not follow from the chain of another.
func readLinks(ctx context.Context, c beginner, after int64, limit int) (p auditPage, err error) {
	tx, err := c.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return p, err
	}
	defer func() { err = errors.Join(err, tx.Commit(ctx)) }()
	return linksOf(ctx, tx, after, limit)
}

func linksOf(ctx context.Context, c reader, after int64, limit int) (p auditPage, err error) {
	if p.head, err = found(ctx, c, scanHead, errNoHead, selectHead); err != nil {
		return p, err
	}
	if p.prev, err = found(ctx, c, scanLink, nil, selectLink+` WHERE c.seq <= $1 ORDER BY c.seq DESC LIMIT 1`, after); err != nil {
		return p, err
	}
	p.prev.Hash = cmp.Or(p.prev.Hash, bloom.NoHash)
	entries, err := collect(ctx, c, func(r pgx.Rows) (l bloom.ChainLink, err error) {
		var hash []byte
		a := &bloom.Audit{}
		err = r.Scan(append(auditFields(a), &hash)...)
		a.Hash = hex.EncodeToString(hash)
		return bloom.ChainLink{Seq: a.Seq, Hash: a.Hash, Entry: a}, err
	}, `SELECT `+auditColumns+`, c.hash FROM audit_logs a LEFT JOIN audit_chain c ON c.seq = a.seq WHERE a.seq > $1 ORDER BY a.seq LIMIT $2`, after, limit)
	if err != nil {
		return p, err
	}
	upto := int64(math.MaxInt64)
	if len(entries) == limit {
		upto = entries[limit-1].Seq
	}
	bare, err := collect(ctx, c, scanLink, selectLink+` WHERE c.seq > $1 AND c.seq <= $2 AND NOT EXISTS (SELECT FROM audit_logs a WHERE a.seq = c.seq)
		ORDER BY c.seq LIMIT $3`, after, upto, limit)
	p.links = store.MergeLinks(entries, bare, limit)
	return p, err
}

const selectLink = `SELECT c.seq, c.hash, c.removed_at FROM audit_chain c`

func scanLink(r pgx.Rows) (l bloom.ChainLink, err error) {
	var hash []byte
	var removed *int64
	if err = r.Scan(&l.Seq, &hash, &removed); removed != nil {
		l.Removed = *removed
	}
	l.Hash = hex.EncodeToString(hash)
	return l, err
}

// AuditLag tells how far chain and export are behind.
func (d *database) AuditLag(ctx context.Context) (bloom.AuditLag, error) {
	return read(ctx, d, func(c reader) (lag bloom.AuditLag, err error) {
		var now int64
		var unchained, unexported *int64
		err = c.QueryRow(ctx, `SELECT `+nowSQL+`, (SELECT a.timestamp FROM audit_logs a WHERE a.seq > h.seq ORDER BY a.seq LIMIT 1),
				(SELECT a.timestamp FROM audit_logs a WHERE a.seq > e.exported ORDER BY a.seq LIMIT 1), greatest(0, h.seq - e.exported), e.exported
			FROM audit_head h, audit_export e`, d.testNow()).Scan(&now, &unchained, &unexported, &lag.ToExport, &lag.LastExported)
		lag.Unchained, lag.Unexported = store.Since(now, unchained), store.Since(now, unexported)
		return lag, err
	})
}

// Audit reads the audit of a database, also while servers use it. One goroutine may
// use it.
type Audit struct{ c *pgx.Conn }

// OpenAudit connects to the database at url.
func OpenAudit(ctx context.Context, url string) (*Audit, error) {
	c, err := Connect(ctx, url)
	if err != nil {
		return nil, cannotConnect(err)
	}
	return &Audit{c}, nil
}

// AuditLinks is Store.AuditLinks.
func (a *Audit) AuditLinks(ctx context.Context, after int64, limit int) (bloom.ChainHead, bloom.ChainLink, []bloom.ChainLink, error) {
	p, err := readLinks(ctx, a.c, after, limit)
	return p.head, p.prev, p.links, err
}

// AuditExported is the number of the last entry that was exported.
func (a *Audit) AuditExported(ctx context.Context) (exported int64, err error) {
	err = a.c.QueryRow(ctx, `SELECT exported FROM audit_export`).Scan(&exported)
	return exported, err
}

// Close ends the connection.
func (a *Audit) Close() { _ = a.c.Close(context.Background()) }
