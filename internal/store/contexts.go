package store

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/audit"
	"github.com/bloom-runtime/bloom/internal/storable"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

// Transactions change a context's row by increments, so tasks of one context need not
// wait for each other.

var contextRows = locked[*bloom.Context]("contexts", "id", "text", "")

// promptStart is how much of the newest prompt a context shows, in characters.
const promptStart = 300

var contextColumns = `x.id, x.name, x.pinned, coalesce((SELECT ` + cut("t.prompt", promptStart) + ` FROM llm_tasks t WHERE t.seq = x.seq), ''),
	coalesce((SELECT t.status FROM llm_tasks t WHERE t.seq = x.seq), ''), x.tasks, x.unfinished, x.tokens, x.cost_nano, x.worker_id, x.created_at, x.last_used_at, x.updated_at,
	(SELECT NULLIF(s.session_id, '') FROM transcripts s WHERE s.context_id = x.id), coalesce((SELECT s.size FROM transcripts s WHERE s.context_id = x.id), 0),
	coalesce((SELECT s.workspace_size FROM transcripts s WHERE s.context_id = x.id), 0)`

func contextFields(x *bloom.Context) []any {
	return []any{&x.ID, &x.Name, &x.Pinned, &x.LastPrompt, &x.LastStatus, &x.Tasks, &x.Unfinished, &x.Tokens, (*nanos)(&x.CostUSD), &x.WorkerID, &x.CreatedAt, &x.LastUsedAt, &x.UpdatedAt, &x.SessionID, &x.Size, &x.Workspace}
}

func loadContexts(l *Load, v *Values[string, *bloom.Context]) {
	pickRows(l, v, "x", contextColumns, contextFields, func(x *bloom.Context) string { return x.ID })
}

// ContextChange is what a transaction adds to a context, which is created if it does
// not exist.
type ContextChange struct {
	ID         string
	Seq        int64 // the number of its newest task; never decreases
	CreatedAt  int64 // of its oldest task
	LastUsedAt int64 // never decreases
	UpdatedAt  int64 // never decreases
	Tasks      int64
	Unfinished int64
	Tokens     int64
	CostNano   int64   // billionths of a US dollar
	WorkerID   *string // nil: unchanged
}

// ContextsInOrder returns the changed contexts by id, so that transactions lock them in
// the same order.
func (c *Changes) ContextsInOrder() []*ContextChange {
	all := make([]*ContextChange, 0, len(c.Contexts))
	for _, x := range c.Contexts {
		all = append(all, x)
	}
	slices.SortFunc(all, func(a, b *ContextChange) int { return cmp.Compare(a.ID, b.ID) })
	return all
}

// contextChange returns the pending change of a task's context.
func (u *Unit) contextChange(t *Task) *ContextChange {
	x := u.c.Contexts[t.ContextID]
	if x == nil {
		x = &ContextChange{ID: t.ContextID, Seq: t.Seq, CreatedAt: t.CreatedAt, LastUsedAt: t.CreatedAt}
		if u.c.Contexts == nil {
			u.c.Contexts = map[string]*ContextChange{}
		}
		u.c.Contexts[t.ContextID] = x
	}
	x.Seq, x.CreatedAt, x.LastUsedAt = max(x.Seq, t.Seq), min(x.CreatedAt, t.CreatedAt), max(x.LastUsedAt, t.CreatedAt)
	x.UpdatedAt = max(x.UpdatedAt, t.UpdatedAt)
	return x
}

func (u *Unit) newInContext(t *Task) {
	x := u.contextChange(t)
	x.Tasks++
	x.Unfinished++
}

// updateContext adds what a task's transition changes to its context.
func (u *Unit) updateContext(t *Task, before bloom.TaskState, leased bool) {
	ended, requeued := !before.Status.Terminal() && t.Status.Terminal(), before.Status.Terminal() && !t.Status.Terminal()
	if !ended && !requeued && !leased {
		return
	}
	x := u.contextChange(t)
	switch {
	case ended:
		x.Unfinished--
	case requeued:
		x.Unfinished++
	}
	if leased {
		x.WorkerID = t.WorkerID
	}
}

// Named is what people call a context.
type Named struct {
	ID, Name string
	Pinned   bool
}

// ChangeContext names or pins a context.
func (s *Store) ChangeContext(ctx context.Context, id string, p contract.ContextPatch, actor string) (bloom.Context, error) {
	if id != storable.Text(id) {
		return bloom.Context{}, bloom.ErrContextNotFound
	}
	_, err := doUnbatched(ctx, s, func(r *Rows) { contextRows.want(r, id) }, func(u *Unit) (struct{}, error) {
		x, err := contextRows.get(u, id)
		switch {
		case err != nil:
			return struct{}{}, err
		case x == nil:
			return struct{}{}, bloom.ErrContextNotFound
		}
		is := Named{id, x.Name, x.Pinned}
		note := func(detail string) {
			u.audit(audit.ActionContextChanged, audit.EntityContext, id, actor, detail, storable.MustJSON(p))
		}
		if p.Name != nil && *p.Name != is.Name {
			is.Name = *p.Name
			note("Named " + strconv.Quote(is.Name))
		}
		if p.Pinned != nil && *p.Pinned != is.Pinned {
			is.Pinned = *p.Pinned
			note(map[bool]string{true: "Pinned", false: "Unpinned"}[is.Pinned])
		}
		if is != (Named{id, x.Name, x.Pinned}) {
			u.c.Named = append(u.c.Named, is)
		}
		return struct{}{}, nil
	})
	if err != nil {
		return bloom.Context{}, err
	}
	return s.Context(ctx, id)
}

// ForgetContext deletes a context and its transcript.
func (s *Store) ForgetContext(ctx context.Context, id, actor string) error {
	if id != storable.Text(id) {
		return bloom.ErrContextNotFound
	}
	reads := func(r *Rows) {
		contextRows.want(r, id)
		transcripts.want(r, id)
	}
	_, err := doUnbatched(ctx, s, reads, func(u *Unit) (struct{}, error) {
		x, err := contextRows.get(u, id)
		switch {
		case err != nil:
			return struct{}{}, err
		case x == nil:
			return struct{}{}, bloom.ErrContextNotFound
		case x.Unfinished > 0:
			return struct{}{}, bloom.Conflict("The context has %d tasks that have not ended; cancel them first", x.Unfinished)
		}
		_, err = u.forget(id, actor)
		return struct{}{}, err
	})
	return err
}

// forget deletes a context and its transcript, and returns how many objects are to be
// deleted with them.
func (u *Unit) forget(id, actor string) (objects int, err error) {
	was, err := transcripts.get(u, id)
	if err != nil {
		return 0, err
	}
	urls := contract.Transcript{}.Dropped(was)
	u.c.Removal.URLs = append(u.c.Removal.URLs, urls...)
	u.setTranscript(id, nil)
	u.changed()
	u.c.Forgotten = append(u.c.Forgotten, id)
	u.audit(audit.ActionContextForgotten, audit.EntityContext, id, actor, "Forgotten with its transcript", nil)
	return len(urls), nil
}

// Context reads one context.
func (s *Store) Context(ctx context.Context, id string) (bloom.Context, error) {
	x, err := single(ctx, s, contextFields, bloom.ErrContextNotFound, `SELECT `+contextColumns+` FROM contexts x WHERE x.id = $1`, id)
	if err != nil {
		return bloom.Context{}, err
	}
	whole := []bloom.Context{x}
	err = s.addContextUsage(ctx, whole)
	return whole[0], err
}

// addContextUsage adds what running attempts have used to their contexts.
func (s *Store) addContextUsage(ctx context.Context, contexts []bloom.Context) error {
	places := make(map[string]*bloom.Context, len(contexts))
	for i := range contexts {
		if contexts[i].Unfinished > 0 {
			places[contexts[i].ID] = &contexts[i]
		}
	}
	return s.usage(ctx, "context_id", "text", slices.Collect(maps.Keys(places)), func(id string, u bloom.Usage) {
		places[id].Tokens += u.TokensUsed
		places[id].CostUSD += u.CostUSD
	}, s.sql.Via("leases_held")+" WHERE l.status = 'active'")
}

// Contexts lists contexts, that with the newest task first.
func (s *Store) Contexts(ctx context.Context, q bloom.ContextQuery) ([]bloom.Context, bloom.Cursor, error) {
	l := &listing[bloom.Context]{from: "contexts", as: "x", columns: contextColumns, fields: contextFields}
	if q.Pinned {
		l.by = s.sql.True("x.pinned")
	}
	l.ending(fmt.Sprintf(s.sql.ShortID, "x.id"), q.ShortID)
	if q.Text != "" {
		part, folded := l.arg(q.Text), l.arg(strings.ToLower(q.Text))
		l.filter += fmt.Sprintf(" AND (%[1]s(x.id, %[2]s) > 0 OR %[1]s(lower(x.id), %[3]s) > 0 OR %[1]s(x.folded, %[3]s) > 0)", s.sql.Position, part, folded)
	}
	contexts, next, err := list(ctx, s, l, q.Page)
	if err == nil {
		err = s.addContextUsage(ctx, contexts)
	}
	return contexts, next, err
}

// Forgotten lists contexts that were forgotten, numbered above after.
func (s *Store) Forgotten(ctx context.Context, after int64, limit int) ([]bloom.ForgottenContext, error) {
	// Not EXISTS, for which PostgreSQL may read all contexts once.
	return all(ctx, s, func(f *bloom.ForgottenContext) []any { return []any{&f.Seq, &f.ID, &f.At, &f.Used} },
		`SELECT seq, context_id, at, (SELECT x.id FROM contexts x WHERE x.id = context_id LIMIT 1) IS NOT NULL FROM forgotten_contexts WHERE seq > $1 ORDER BY seq LIMIT CAST($2 AS BIGINT)`, after, bloom.Page{Limit: limit}.Size())
}

// contexts writes names of contexts, forgotten contexts and removed content, but not the
// increments of contexts.
func (d *Dialect) contexts(c *Changes, add func(string, ...any)) {
	for _, x := range c.Named {
		add(`UPDATE contexts SET name = $1, folded = $2, pinned = $3 WHERE id = $4`, x.Name, strings.ToLower(x.Name), x.Pinned, x.ID)
	}
	for _, id := range c.Forgotten {
		add(`DELETE FROM contexts WHERE id = $1`, id)
	}
	if len(c.Forgotten) > 0 && d.InOrder != "" {
		add(d.InOrder)
	}
	for _, id := range c.Forgotten {
		add(`INSERT INTO forgotten_contexts (at, context_id) VALUES ($1, $2)`, c.Now, id)
	}
	for _, url := range c.Removal.URLs {
		add(`INSERT INTO removed_contents (url, removed_at) VALUES ($1, $2)`, url, c.Now)
	}
}
