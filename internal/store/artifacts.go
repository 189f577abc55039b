package store

import (
	"context"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/schema"
)

// ContentPlace is where an artifact's content is; its URL is nil if it is in the row.
type ContentPlace struct {
	URL   *string
	moved bool // its content is not in the row any more, nor displaced
}

// places are artifacts whose content is moved.
var places = table("runtime_artifacts", "id uuid, url text, content text, displaced bool", "",
	func(v []any, id string, p *ContentPlace) []any {
		if !p.moved {
			return append(v, id, p.URL, "in the row", true) // it may be: only written once it is moved
		}
		return append(v, id, p.URL, nil, false)
	}, nil)

func loadPlaces(l *Load, v *Values[string, *ContentPlace]) {
	l.Pick(scan(func(p *keyed[ContentPlace]) []any { return []any{&p.key, &p.value.URL} }, func(p *keyed[ContentPlace]) { v.Set(p.key, &p.value) }),
		`SELECT a.id, a.url FROM runtime_artifacts a`, "a.id", "uuid", IDs(v.Keys()), l.lock("a"))
}

const artifactColumns = `a.id, a.task_id, a.job_id, a.type, a.created_at, a.finalized, a.url, a.entity_refs, a.tags, a.size, a.sha256, a.media_type,
	coalesce(a.path, ''), coalesce(a.epoch, 0), a.content`

func artifactFields(a *bloom.Artifact) []any {
	return []any{
		&a.ID, &a.TaskID, &a.JobID, &a.Type, &a.CreatedAt, &a.Finalized, &a.URL, (*List)(&a.EntityRefs), (*List)(&a.Tags),
		&a.Size, &a.SHA256, &a.MediaType, &a.Path, &a.Epoch, &a.Content,
	}
}

var artifactLayout = layout("runtime_artifacts", "id uuid, task_id uuid, type text, created_at bigint, finalized bool, url text, tags jsonb, size bigint, sha256 text, "+
	"media_type text, content text, displaced bool, epoch bigint, path text", Insert)

func artifactValues(v []any, a NewArtifact) []any {
	var path *string
	if a.Path != "" {
		path = &a.Path
	}
	return append(v, a.ID, a.TaskID, a.Type, a.CreatedAt, a.Finalized, a.URL, schema.ListJSON(a.Tags), a.Size, a.SHA256, a.MediaType, a.Content,
		a.Displaced, a.Epoch, path)
}

// MoveArtifact records the new URL of an artifact's content. It writes no audit
// entry, because the content has not changed.
func (s *Store) MoveArtifact(ctx context.Context, id string, from *string, to string) error {
	if !schema.IsID(id) {
		return bloom.NotFound("Artifact")
	}
	_, err := do(ctx, s, func(r *Rows) { places.want(r, id) }, func(u *Unit) (struct{}, error) { return struct{}{}, u.move(id, from, to) })
	return err
}

func (u *Unit) move(id string, from *string, to string) error {
	place, err := places.get(u, id)
	switch {
	case err != nil:
		return err
	case place == nil:
		return bloom.NotFound("Artifact")
	}
	lies := place.URL
	switch {
	case lies != nil && *lies == to:
		return nil
	case (lies == nil) != (from == nil) || lies != nil && *lies != *from:
		return bloom.Conflict("The artifact's content was moved in the meantime")
	}
	places.put(u, id, &ContentPlace{&to, true})
	return nil
}
