package postgres

import (
	"context"
	"errors"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/store"
)

// gaps finds out which missing audit numbers will never be used, because their
// transactions were rolled back. A transaction locks the table before it takes a
// number, and unlocks it after its entry is visible. So once all transactions that had
// the table locked at one moment have unlocked it, a number that was missing at that
// moment is either present or will stay missing. Transaction ids do not show that: a
// crash or a restored backup loses them. See docs/development/adr/0010.
type gaps struct {
	mu      sync.Mutex
	settled int64               // numbers up to here that are missing stay missing
	upto    int64               // becomes settled once holders is empty; 0: no check is running
	holders map[string]struct{} // transactions that had the table locked when the check began
}

// settle reports whether the gaps below upto, the number of an existing entry, are
// settled. Call it again until they are.
func (g *gaps) settle(ctx context.Context, c *pgx.Conn, upto int64) (bool, error) {
	locking, err := store.Collect(ctx, reader{c}, store.Self[string], `SELECT virtualtransaction FROM pg_locks WHERE locktype = 'relation' AND mode = 'RowExclusiveLock'
		AND relation = 'audit_logs'::regclass AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) AND pid <> pg_backend_pid()`)
	if err != nil {
		return false, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	holders := make(map[string]struct{}, len(locking))
	for _, tx := range locking {
		if _, before := g.holders[tx]; before || g.upto == 0 {
			holders[tx] = struct{}{}
		}
	}
	if g.upto == 0 {
		g.upto = upto
	}
	if g.holders = holders; len(holders) > 0 {
		return false, nil
	}
	g.settled, g.upto = max(g.settled, g.upto), 0
	return true, nil
}

// run returns the entries before the first gap that is not settled.
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

// chain reads the audit entries to chain next, unless another process has locked the
// head.
func (t *tx) chain(ctx context.Context, v *store.Values[struct{}, *store.Chain]) error {
	most := v.Want[struct{}{}]
	c := &store.Chain{}
	err := t.c.QueryRow(ctx, `SELECT seq, hash FROM audit_head FOR UPDATE SKIP LOCKED`).Scan(&c.Head.Seq, (*store.Hash)(&c.Head.Hash))
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
			break // once settled, a missing entry may have appeared: read again
		}
	}
	c.Blocked = len(c.Unsealed) < len(next)
	v.Set(struct{}{}, c)
	return err
}

func (t *tx) unsealed(ctx context.Context, after int64, most int) ([]bloom.Audit, error) {
	return store.Collect(ctx, reader{t.c}, store.AuditFields, `SELECT `+store.AuditColumns+` FROM audit_logs a WHERE a.seq > $1 ORDER BY a.seq LIMIT $2`, after, most)
}
