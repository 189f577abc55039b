package store

import (
	"context"
	"fmt"
	"strings"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/schema"
	"github.com/bloom-runtime/bloom/internal/storable"
	"github.com/bloom-runtime/bloom/internal/store/contract"
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

// taskArtifactColumns are those of an artifact after its task's.
const taskArtifactColumns = `coalesce((SELECT t.context_id FROM llm_tasks t WHERE t.id = a.task_id), ''),
	coalesce((SELECT substr(t.prompt, 1, 200) FROM llm_tasks t WHERE t.id = a.task_id), ''), ` + artifactColumns

func taskArtifactFields(a *bloom.Artifact) []any {
	return append([]any{&a.ContextID, &a.Prompt}, artifactFields(a)...)
}

var artifactLayout = layout("runtime_artifacts", "id uuid, task_id uuid, type text, created_at bigint, finalized bool, url text, tags jsonb, size bigint, sha256 text, "+
	"media_type text, content text, displaced bool, epoch bigint, path text", Insert)

func artifactValues(v []any, a NewArtifact) []any {
	var path *string
	if a.Path != "" {
		path = &a.Path
	}
	return append(v, a.ID, a.TaskID, a.Type, a.CreatedAt, a.Finalized, a.URL, schema.ListJSON(a.Tags), a.Size, a.SHA256, a.MediaType, a.Content,
		a.PendingUpload, a.Epoch, path)
}

// MoveArtifact records the new URL of an artifact's content. It writes no audit
// entry, because the content has not changed.
func (s *Store) MoveArtifact(ctx context.Context, id string, from *string, to string) error {
	if !storable.IsID(id) {
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

// Artifact reads one artifact.
func (s *Store) Artifact(ctx context.Context, id string) (bloom.Artifact, error) {
	missing := bloom.NotFound("Artifact")
	if !storable.IsID(id) {
		return bloom.Artifact{}, missing
	}
	return single(ctx, s, artifactFields, missing, `SELECT `+artifactColumns+` FROM runtime_artifacts a WHERE a.id = $1`, id)
}

// leasesOfTask are the leases of the task %[1]s. One index has the active lease, another the others.
const leasesOfTask = "SELECT h.seq FROM leases h WHERE h.task_id = %[1]s AND h.status = 'active' UNION ALL SELECT h.seq FROM leases h WHERE h.task_id = %[1]s AND h.status <> 'active'"

// Artifacts lists artifacts, the newest first.
func (s *Store) Artifacts(ctx context.Context, q bloom.ArtifactQuery) ([]bloom.Artifact, bloom.Cursor, error) {
	columns, fields := artifactColumns, artifactFields
	if q.WithTask {
		columns, fields = taskArtifactColumns, taskArtifactFields
	}
	if q.TextBytes > 0 {
		columns = strings.TrimSuffix(columns, "a.content") + cut("a.content", q.TextWindow())
	}
	l := &listing[bloom.Artifact]{from: "runtime_artifacts", as: "a", columns: columns, fields: fields}
	switch {
	case q.TaskID != "" && !storable.IsID(q.TaskID):
		return []bloom.Artifact{}, bloom.Cursor{}, nil
	case q.TaskID != "":
		l.first("a.task_id = %s", q.TaskID)
	case q.PendingUpload:
		l.by = s.sql.True("a.displaced")
	case q.Type == "FILE":
		l.by = "a.type = 'FILE'"
	}
	if q.Type != "" && l.by != "a.type = 'FILE'" { // no other type has an index
		l.only("a.type", q.Type)
	}
	l.ending(fmt.Sprintf(s.sql.ShortID, "a.id"), q.ShortID)
	items, next, err := list(ctx, s, l, q.Page)
	for i := range items {
		contract.CutContent(&items[i], q.TextBytes)
	}
	return items, next, err
}

// WaitingContent counts artifacts and contexts with content that is to be moved.
func (s *Store) WaitingContent(ctx context.Context) (int64, error) {
	n, err := single(ctx, s, Self[int64], nil, `SELECT (SELECT count(*) FROM (SELECT 1 FROM runtime_artifacts`+s.sql.Via("runtime_artifacts_displaced")+
		` WHERE `+s.sql.True("displaced")+` AND seq > 0 LIMIT CAST($1 AS BIGINT)) q) +
		(SELECT count(*) FROM (SELECT 1 FROM transcripts x`+s.sql.Via("transcripts_local")+` WHERE x.context_id > '' AND `+s.sql.LocalParts+` LIMIT CAST($1 AS BIGINT)) q)`, contract.MaxWaiting)
	return min(n, contract.MaxWaiting), err
}

// NewArtifact is an artifact to insert. PendingUpload: its content is not where it
// belongs and is moved later.
type NewArtifact struct {
	bloom.Artifact
	PendingUpload bool
}

// NewArtifacts returns the artifacts of outcomes, then Files.
func (c *Changes) NewArtifacts() []NewArtifact {
	all := make([]NewArtifact, 0, len(c.Outcomes)+len(c.Files))
	for _, o := range c.Outcomes {
		all = append(all, NewArtifact{o.Artifact, o.PendingUpload})
	}
	return append(all, c.Files...)
}
