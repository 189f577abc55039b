package store

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/bloom-runtime/bloom/internal/membridge/registry"
)

const termColumns = `terms.primary_node_id, terms.epoch, terms.lease_seconds, terms.issued_by, terms.issued_at, terms.expires_at`

func scanTerm(row scanner) (registry.Term, error) {
	var (
		t               registry.Term
		issued, expires int64
	)
	err := row.Scan(&t.PrimaryNodeID, &t.Epoch, &t.LeaseSeconds, &t.IssuedBy, &issued, &expires)
	t.IssuedAt, t.ExpiresAt = registry.MillisToSeconds(issued), registry.MillisToSeconds(expires)
	return t, err
}

// currentTerm returns the term with the highest epoch, nil without one.
func currentTerm(ctx context.Context, q querier, cid string) (*registry.Term, error) {
	t, err := scanTerm(q.QueryRowContext(ctx, `
		SELECT `+termColumns+` FROM leaderships l
		JOIN terms ON terms.canonical_id = l.canonical_id AND terms.epoch = l.epoch
		WHERE l.canonical_id = $1`, cid))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &t, nil
}

// clockAhead is how far in the future the last selection may be. A later one was made with a
// wrong clock: it must not give all selections after it a time in the future.
const clockAhead = time.Hour

// Select starts a new term. Concurrent selections wait for the row of the project's epoch: the
// second sees the first's epoch and uses the next one.
func (s *Store) Select(ctx context.Context, sel registry.Selection) (term registry.Term, err error) {
	err = s.write(ctx, func(ctx context.Context, q querier) error {
		var epoch int64
		err := q.QueryRowContext(ctx, `
			INSERT INTO leaderships (canonical_id, epoch) VALUES ($1, 1)
			ON CONFLICT (canonical_id) DO UPDATE SET epoch = leaderships.epoch + 1
			RETURNING epoch`, sel.CanonicalID).Scan(&epoch)
		if err != nil {
			return err
		}
		if sel.ExpectedEpoch != nil && *sel.ExpectedEpoch != epoch-1 {
			return registry.ErrEpoch
		}
		// A later epoch always has a later time, by which nodes order selections, even after the
		// clock was set back. Read it after locking the row.
		var last int64
		err = q.QueryRowContext(ctx, `SELECT coalesce(max(issued_at), 0) FROM terms WHERE canonical_id = $1`, sel.CanonicalID).Scan(&last)
		if err != nil {
			return err
		}
		now := s.nowMillis()
		issued := max(now, last+1)
		if last > now+clockAhead.Milliseconds() {
			issued = now
		}
		term, err = scanTerm(q.QueryRowContext(ctx, `
			INSERT INTO terms (canonical_id, epoch, primary_node_id, lease_seconds, issued_by, issued_at, expires_at)
			VALUES ($1, $2, $3, $4, $5, $6, $7) RETURNING `+termColumns,
			sel.CanonicalID, epoch, sel.PrimaryNodeID, sel.LeaseSeconds, sel.IssuedBy,
			issued, max(now+int64(sel.LeaseSeconds)*1000, issued+1)))
		return err
	})
	return term, err
}

// History returns a project's terms, newest first.
func (s *Store) History(ctx context.Context, cid string, limit int) ([]registry.Term, error) {
	return collect(ctx, s.read, scanTerm,
		`SELECT `+termColumns+` FROM terms WHERE terms.canonical_id = $1 ORDER BY terms.epoch DESC LIMIT $2`, cid, listed(limit))
}
