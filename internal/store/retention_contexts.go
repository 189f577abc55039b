package store

import (
	"context"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/audit"
	"github.com/bloom-runtime/bloom/internal/lifecycle"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

// AgedContext is a context that may have been unused for long. Only its id,
// LastUsedAt, UpdatedAt and Unfinished are set.
type AgedContext struct {
	Seq int64
	bloom.Context
}

// RemoveContexts forgets contexts that have not been used for long, by their newest
// task, the longest unused first.
func (s *Store) RemoveContexts(ctx context.Context, r contract.RemoveRequest) (did contract.Removed, err error) {
	did.Next = r.After
	now, err := s.Time(ctx)
	if err != nil {
		return did, err
	}
	list, err := s.OldContexts(ctx, r.After, contract.RemoveWindow)
	if err != nil {
		return did, s.explain(err)
	}
	before, full := r.Before(now), len(list) == contract.RemoveWindow
	var old []string
	for _, x := range list {
		if len(old) == r.Batch() {
			full, did.More = true, true
			break
		}
		did.Next = x.Seq
		did.More = did.More || x.LastUsedAt < before
		if lifecycle.Forgettable(x.Context, before) {
			old = append(old, x.ID)
		}
	}
	did.More = did.More && full
	forgotten, err := s.forgetOld(ctx, old, before)
	did.Contexts, did.Contents = forgotten.Contexts, forgotten.Contents
	return did, err
}

// forgetOld forgets contexts in one transaction. If that fails because of a bad row,
// each is forgotten separately and the bad one is skipped.
func (s *Store) forgetOld(ctx context.Context, old []string, before int64) (did contract.Removed, err error) {
	if len(old) == 0 {
		return did, nil
	}
	reads := func(r *Rows) {
		contextRows.want(r, old...)
		transcripts.want(r, old...)
	}
	did, err = doUnbatched(ctx, s, reads, func(u *Unit) (did contract.Removed, err error) {
		for _, id := range old {
			x, _ := contextRows.of(u.rows).Get(id)
			if x == nil || !lifecycle.Forgettable(*x, before) {
				continue // it was used, forgotten or locked meanwhile
			}
			contents, err := u.forget(id, audit.ActorRetention)
			if u.locked(err) {
				continue
			}
			if err != nil {
				return did, err
			}
			did.Contexts, did.Contents = did.Contexts+1, did.Contents+int64(contents)
		}
		return did, nil
	})
	if err == nil || bloom.KindOf(err) != bloom.KindInternal || transient(err) {
		return did, err
	}
	if len(old) == 1 {
		s.log.Error("skipping a context that cannot be forgotten", "context_id", old[0], "error", err)
		return contract.Removed{}, nil
	}
	did = contract.Removed{}
	for i := range old {
		one, err := s.forgetOld(ctx, old[i:i+1], before)
		if err != nil {
			return did, err
		}
		did.Add(one)
	}
	return did, nil
}

// RemoveForgotten removes old records of forgotten contexts.
func (s *Store) RemoveForgotten(ctx context.Context, r contract.RemoveRequest) (did contract.Removed, err error) {
	did.Next = r.After
	now, err := s.Time(ctx)
	if err != nil {
		return did, err
	}
	list, err := s.Forgotten(ctx, r.After, r.Batch())
	if err != nil {
		return did, s.explain(err)
	}
	var old []int64
	for _, x := range list {
		if x.At < r.Before(now) {
			old = append(old, x.Seq)
			did.Next = x.Seq
		}
	}
	if did.More = len(old) == r.Batch(); len(old) == 0 {
		return did, nil
	}
	_, err = do(ctx, s, func(*Rows) {}, func(u *Unit) (struct{}, error) {
		u.changed()
		u.c.Removal.Forgotten = append(u.c.Removal.Forgotten, old...)
		return struct{}{}, nil
	})
	return did, err
}

// OldContexts lists contexts by their newest task.
func (s *Store) OldContexts(ctx context.Context, after int64, limit int) ([]AgedContext, error) {
	return all(ctx, s, func(x *AgedContext) []any {
		return []any{&x.Seq, &x.ID, &x.LastUsedAt, &x.UpdatedAt, &x.Unfinished}
	},
		`SELECT x.seq, x.id, x.last_used_at, x.updated_at, x.unfinished FROM contexts x`+s.sql.Via("contexts_seq")+`
			WHERE x.seq > $1 ORDER BY x.seq LIMIT CAST($2 AS BIGINT)`, after, limit)
}
