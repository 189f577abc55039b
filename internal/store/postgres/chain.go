package postgres

import (
	"context"
	"errors"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/store"
	"github.com/bloom-runtime/bloom/internal/store/sqldb"
)

// gaps knows which numbers in the audit, that were taken and are not there, will never
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
	under, err := sqldb.Collect(ctx, reader{c}, sqldb.Self[string], `SELECT virtualtransaction FROM pg_locks WHERE locktype = 'relation' AND mode = 'RowExclusiveLock'
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
	c := &store.Chain{}
	err := t.c.QueryRow(ctx, `SELECT seq, hash FROM audit_head FOR UPDATE SKIP LOCKED`).Scan(&c.Head.Seq, (*sqldb.Hash)(&c.Head.Hash))
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
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
	return sqldb.Collect(ctx, reader{t.c}, sqldb.AuditFields, `SELECT `+sqldb.AuditColumns+` FROM audit_logs a WHERE a.seq > $1 ORDER BY a.seq LIMIT $2`, after, most)
}

// beginner is a connection, or a pool of them, that begins transactions.
type beginner interface {
	BeginTx(ctx context.Context, options pgx.TxOptions) (pgx.Tx, error)
}

// snapshot runs fn in a transaction in which all that is read is of one moment.
func snapshot(ctx context.Context, c beginner, fn func(sqldb.Conn) error) (err error) {
	tx, err := c.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, tx.Commit(ctx)) }()
	return fn(reader{tx})
}

// Snapshot is like Run, in one transaction.
func (d *database) Snapshot(ctx context.Context, fn func(sqldb.Conn) error) error {
	return d.Run(ctx, func(sqldb.Conn) error { return snapshot(ctx, d.reads, fn) })
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
func (a *Audit) AuditLinks(ctx context.Context, after int64, limit int) (head bloom.ChainHead, prev bloom.ChainLink, links []bloom.ChainLink, err error) {
	err = snapshot(ctx, a.c, func(c sqldb.Conn) (err error) {
		head, prev, links, err = sqldb.ReadLinks(ctx, c, after, limit)
		return err
	})
	return head, prev, links, err
}

// AuditExport is how far the audit was exported.
func (a *Audit) AuditExport(ctx context.Context) (at bloom.AuditExport, err error) {
	err = snapshot(ctx, a.c, func(c sqldb.Conn) (err error) {
		at, err = sqldb.ReadExport(ctx, c)
		return err
	})
	return at, err
}

// Close ends the connection.
func (a *Audit) Close() { _ = a.c.Close(context.Background()) }
