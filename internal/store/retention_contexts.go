package store

import (
	"context"
	"errors"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/lifecycle"
)

// RemoveContexts forgets contexts that were not used for long. They are looked for in
// the order of their newest tasks, so that those that were not used for longest come
// first.
func (s *Store) RemoveContexts(ctx context.Context, r bloom.RemoveRequest) (did bloom.Removed, err error) {
	if did.Next = r.After; !s.filled.Load() {
		return did, nil // older tasks may belong to any of them
	}
	now, err := s.now(ctx)
	if err != nil {
		return did, err
	}
	list, err := s.db.OldContexts(ctx, r.After, bloom.RemoveWindow)
	if err != nil {
		return did, s.fail(err)
	}
	before, full := r.Before(now), len(list) == bloom.RemoveWindow
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

// forgetOld forgets contexts together. When that fails because of one of them, each is
// forgotten by itself, and the one that cannot be is skipped.
func (s *Store) forgetOld(ctx context.Context, old []string, before int64) (did bloom.Removed, err error) {
	if len(old) == 0 {
		return did, nil
	}
	want := func(r *ReadSet) {
		r.Contexts.Add(old...)
		r.Scripts.Add(old...)
	}
	did, err = apart(ctx, s, want, func(u *Unit) (did bloom.Removed, err error) {
		for _, id := range old {
			x := u.rows.Contexts[id]
			if x == nil || !lifecycle.Forgettable(*x, before) {
				continue // it was used, or forgotten, or somebody has locked it
			}
			contents, err := u.forget(id, bloom.ActorRetention)
			if errors.Is(err, errBusy) {
				continue
			}
			if err != nil {
				return did, err
			}
			did.Contexts, did.Contents = did.Contexts+1, did.Contents+int64(contents)
		}
		return did, nil
	})
	if err == nil || bloom.KindOf(err) != bloom.KindInternal || passing(err) {
		return did, err
	}
	if len(old) == 1 {
		s.log.Error("a context cannot be forgotten and is skipped", "context_id", old[0], "error", err)
		return bloom.Removed{}, nil
	}
	did = bloom.Removed{}
	for i := range old {
		one, err := s.forgetOld(ctx, old[i:i+1], before)
		if err != nil {
			return did, err
		}
		did.Add(one)
	}
	return did, nil
}

// RemoveForgotten drops which contexts were forgotten before.
func (s *Store) RemoveForgotten(ctx context.Context, r bloom.RemoveRequest) (did bloom.Removed, err error) {
	did.Next = r.After
	now, err := s.now(ctx)
	if err != nil {
		return did, err
	}
	list, err := s.db.Forgotten(ctx, r.After, r.Batch())
	if err != nil {
		return did, s.fail(err)
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
	_, err = do(ctx, s, func(*ReadSet) {}, func(u *Unit) (struct{}, error) {
		u.dirt = true
		u.c.Removal.Forgotten = append(u.c.Removal.Forgotten, old...)
		return struct{}{}, nil
	})
	return did, err
}
