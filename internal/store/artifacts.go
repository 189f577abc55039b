package store

import (
	"context"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/schema"
)

// MoveArtifact records the new URL of an artifact's content. It writes no audit
// entry, because the content has not changed.
func (s *Store) MoveArtifact(ctx context.Context, id string, from *string, to string) error {
	if !schema.IsID(id) {
		return bloom.NotFound("Artifact")
	}
	_, err := do(ctx, s, func(r *ReadSet) { r.Places.Add(id) }, func(u *Unit) (struct{}, error) { return struct{}{}, u.move(id, from, to) })
	return err
}

func (u *Unit) move(id string, from *string, to string) error {
	var lies *string
	if url, ok := u.moved[id]; ok {
		lies = &url
	} else {
		was, ok := u.rows.Places[id]
		switch {
		case !ok:
			return u.require(id, func() { u.missing.Places.Add(id) })
		case was == nil:
			return bloom.NotFound("Artifact")
		}
		lies = was.URL
	}
	switch {
	case lies != nil && *lies == to:
		return nil
	case (lies == nil) != (from == nil) || lies != nil && *lies != *from:
		return bloom.Conflict("The artifact's content was moved in the meantime")
	}
	u.dirty = true
	u.moved[id] = to
	u.c.Moves = append(u.c.Moves, Move{ID: id, URL: to})
	return nil
}
