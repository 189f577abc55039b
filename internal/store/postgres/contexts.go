package postgres

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/store"
)

const contextColumns = `x.id, x.tasks, x.unfinished, x.tokens, x.cost_nano, x.worker_id, x.created_at, x.last_used_at, x.updated_at,
	(SELECT NULLIF(s.session_id, '') FROM transcripts s WHERE s.context_id = x.id), coalesce((SELECT s.size FROM transcripts s WHERE s.context_id = x.id), 0),
	coalesce((SELECT s.workspace_size FROM transcripts s WHERE s.context_id = x.id), 0)`

func contextFields(x *bloom.Context) []any {
	return []any{&x.ID, &x.Tasks, &x.Unfinished, &x.Tokens, (*nanos)(&x.CostUSD), &x.WorkerID, &x.CreatedAt, &x.LastUsedAt, &x.UpdatedAt, &x.SessionID, &x.Size, &x.Workspace}
}

// nanos reads billionths of a dollar as dollars.
type nanos float64

// Scan takes the column's number.
func (n *nanos) Scan(src any) error {
	v, _ := src.(int64)
	*n = nanos(bloom.Dollars(v))
	return nil
}

// Context reads one context.
func (d *database) Context(ctx context.Context, id string) (bloom.Context, error) {
	return read(ctx, d, func(c reader) (bloom.Context, error) {
		return found(ctx, c, scanContext, bloom.ErrContextNotFound, `SELECT `+contextColumns+` FROM contexts x WHERE x.id = $1`, id)
	})
}

// Contexts lists contexts, the one with the newest task first.
func (d *database) Contexts(ctx context.Context, q bloom.ContextQuery) ([]bloom.Context, bloom.Cursor, error) {
	l := listing[bloom.Context]{table: "contexts", columns: contextColumns, fields: contextFields}
	pg, err := read(ctx, d, func(c reader) (page[bloom.Context], error) { return l.page(ctx, c, q.Page) })
	return pg.items, pg.next, err
}

func scanContext(r pgx.Rows) (x bloom.Context, err error) {
	err = r.Scan(contextFields(&x)...)
	return x, err
}

const transcriptColumns = `x.context_id, x.session_id, x.size, x.sha256, x.parts, x.workspace`

func scanTranscript(r pgx.Rows) (id string, t *bloom.Transcript, err error) {
	t = &bloom.Transcript{}
	var parts, workspace string
	if err = r.Scan(&id, &t.SessionID, &t.Size, &t.SHA256, &parts, &workspace); err == nil {
		t.Workspace = bloom.ParseSnapshot(workspace)
		err = json.Unmarshal([]byte(parts), &t.Parts)
	}
	return id, t, err
}

func (d *database) transcript(ctx context.Context, by, value string) (*bloom.Transcript, error) {
	return read(ctx, d, func(c reader) (*bloom.Transcript, error) {
		return found(ctx, c, func(r pgx.Rows) (*bloom.Transcript, error) {
			_, t, err := scanTranscript(r)
			return t, err
		}, nil, `SELECT `+transcriptColumns+` FROM transcripts x WHERE x.`+by+` = $1`, value)
	})
}

// Transcript reads a context's transcript, nil when there is none.
func (d *database) Transcript(ctx context.Context, contextID string) (*bloom.Transcript, error) {
	return d.transcript(ctx, "context_id", contextID)
}

// TranscriptIn reads the transcript whose parts lie in a folder, nil when there is none.
func (d *database) TranscriptIn(ctx context.Context, folder string) (*bloom.Transcript, error) {
	return d.transcript(ctx, "folder", folder)
}

// localParts tells that a part lies in a folder; the index transcripts_local has the same
// words.
const localParts = `position('"file:' in x.parts) + position('"file:' in x.workspace) > 0`

// Transcripts lists transcripts in the order of their contexts' ids. What is damaged has
// no parts.
func (d *database) Transcripts(ctx context.Context, after string, limit int, local bool) ([]bloom.ContextTranscript, error) {
	where := ` FROM transcripts x WHERE x.context_id > $1`
	if local {
		where += ` AND ` + localParts
	}
	return read(ctx, d, func(c reader) ([]bloom.ContextTranscript, error) {
		return collect(ctx, c, func(r pgx.Rows) (t bloom.ContextTranscript, err error) {
			var parts, workspace string
			err = r.Scan(&t.ContextID, &t.SessionID, &t.Size, &t.SHA256, &parts, &workspace)
			_ = json.Unmarshal([]byte(parts), &t.Parts)
			t.Workspace = bloom.ParseSnapshot(workspace)
			return t, err
		}, `SELECT `+transcriptColumns+where+` ORDER BY x.context_id LIMIT $2`, after, limit)
	})
}

// Forgotten lists contexts that were forgotten after the given number.
func (d *database) Forgotten(ctx context.Context, after int64, limit int) ([]bloom.ForgottenContext, error) {
	return read(ctx, d, func(c reader) ([]bloom.ForgottenContext, error) {
		return collect(ctx, c, func(r pgx.Rows) (f bloom.ForgottenContext, err error) {
			err = r.Scan(&f.Seq, &f.ID, &f.At)
			return f, err
		}, `SELECT seq, context_id, at FROM forgotten_contexts WHERE seq > $1 ORDER BY seq LIMIT $2`, after, bloom.Page{Limit: limit}.Size())
	})
}

// OldContexts lists contexts in the order of their newest tasks.
func (d *database) OldContexts(ctx context.Context, after int64, limit int) ([]store.AgedContext, error) {
	return read(ctx, d, func(c reader) ([]store.AgedContext, error) {
		return collect(ctx, c, func(r pgx.Rows) (x store.AgedContext, err error) {
			err = r.Scan(&x.Seq, &x.ID, &x.LastUsedAt, &x.UpdatedAt, &x.Unfinished)
			return x, err
		}, `SELECT x.seq, x.id, x.last_used_at, x.updated_at, x.unfinished FROM contexts x WHERE x.seq > $1 ORDER BY x.seq LIMIT $2`, after, limit)
	})
}

// Unfilled lists the newest of the tasks that are in no context yet.
func (d *database) Unfilled(ctx context.Context, limit int) (below int64, ids []string, err error) {
	ids, err = read(ctx, d, func(c reader) ([]string, error) {
		if below, err = found(ctx, c, scanInt, nil, `SELECT below FROM context_fill`); err != nil || below == 0 {
			return nil, err
		}
		return collect(ctx, c, scanText, `SELECT t.id::text FROM llm_tasks t WHERE t.seq < $1 ORDER BY t.seq DESC LIMIT $2`, below, limit)
	})
	return below, ids, err
}

// contexts comes after the tasks: who has locked an older task sees whether it was
// taken in before.
func (l *loader) contexts() {
	if l.want.Filled {
		l.rows.Filled = new(int64)
		l.b.Queue(`SELECT below FROM context_fill`).QueryRow(func(row pgx.Row) error { return row.Scan(l.rows.Filled) })
	}
	if names := l.want.Contexts.List(); len(names) > 0 {
		l.each(func(r pgx.Rows) error {
			x, err := scanContext(r)
			l.rows.Contexts[x.ID] = &x
			return err
		}, `SELECT `+contextColumns+` FROM contexts x WHERE x.id = ANY($1::text[]) FOR UPDATE OF x SKIP LOCKED`, names)
	}
	if names := l.want.Scripts.List(); len(names) > 0 {
		l.each(func(r pgx.Rows) error {
			id, t, err := scanTranscript(r)
			l.rows.Scripts[id] = t
			return err
		}, `SELECT `+transcriptColumns+` FROM transcripts x WHERE x.context_id = ANY($1::text[]) FOR UPDATE SKIP LOCKED`, names)
	}
	if tasks := ids(l.want.Spent); len(tasks) > 0 {
		l.each(func(r pgx.Rows) error {
			var id string
			var spent store.Spent
			err := r.Scan(&id, &spent.Tokens, &spent.CostNano)
			l.rows.Spent[id] = spent
			return err
		}, `SELECT r.task_id, sum(CASE WHEN jsonb_typeof(r.metrics->'tokens_used') = 'number' THEN least((r.metrics->>'tokens_used')::numeric, $2) ELSE 0 END)::bigint,
				sum(CASE WHEN jsonb_typeof(r.metrics->'cost_usd') = 'number' THEN round(least((r.metrics->>'cost_usd')::numeric, $3) * 1000000000) ELSE 0 END)::bigint
			FROM llm_results r WHERE r.task_id = ANY($1::text[]::uuid[]) GROUP BY r.task_id`, tasks, bloom.MaxTokens, int64(bloom.MaxCostUSD))
	}
}

// putContexts adds to contexts what a transaction changes. It waits for others that
// have changed the same ones until they have committed.
var putContexts, fillContexts = addToContexts(`coalesce(excluded.worker_id, c.worker_id)`), addToContexts(`coalesce(c.worker_id, excluded.worker_id)`)

func addToContexts(worker string) *bulk[*store.ContextChange] {
	return &bulk[*store.ContextChange]{
		columns: strings.Split("id text, seq bigint, created_at bigint, last_used_at bigint, updated_at bigint, tasks bigint, unfinished bigint, "+
			"tokens bigint, cost_nano bigint, worker_id text", ", "),
		statement: func(names, rows string, _ int) string {
			return `INSERT INTO contexts AS c (` + names + `) VALUES ` + rows + ` ON CONFLICT (id) DO UPDATE SET seq = greatest(c.seq, excluded.seq),
				created_at = least(c.created_at, excluded.created_at), last_used_at = greatest(c.last_used_at, excluded.last_used_at),
				updated_at = greatest(c.updated_at, excluded.updated_at), tasks = c.tasks + excluded.tasks, unfinished = c.unfinished + excluded.unfinished,
				tokens = c.tokens + excluded.tokens, cost_nano = c.cost_nano + excluded.cost_nano, worker_id = ` + worker
		},
		values: func(v []any, x *store.ContextChange) []any {
			return append(v, x.ID, x.Seq, x.CreatedAt, x.LastUsedAt, x.UpdatedAt, x.Tasks, x.Unfinished, x.Tokens, x.CostNano, x.WorkerID)
		},
	}
}

func queueContexts(b *pgx.Batch, c *store.Changes) {
	for id, x := range c.Scripts {
		if x == nil {
			b.Queue(`DELETE FROM transcripts WHERE context_id = $1`, id)
			continue
		}
		b.Queue(`INSERT INTO transcripts (context_id, folder, updated_at, size, session_id, sha256, parts, workspace, workspace_size) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
			ON CONFLICT (context_id) DO UPDATE SET updated_at = excluded.updated_at, size = excluded.size, session_id = excluded.session_id,
				sha256 = excluded.sha256, parts = excluded.parts, workspace = excluded.workspace, workspace_size = excluded.workspace_size`,
			id, bloom.TranscriptFolder(id), c.Now, x.Size, x.SessionID, x.SHA256, string(bloom.MustJSON(x.Parts)), x.Workspace.Text(), x.Workspace.Bytes())
	}
	for _, id := range c.Forgotten {
		b.Queue(`DELETE FROM contexts WHERE id = $1`, id)
		b.Queue(`INSERT INTO forgotten_contexts (at, context_id) VALUES ($1, $2)`, c.Now, id)
	}
	if len(c.Removal.URLs) > 0 {
		b.Queue(`INSERT INTO removed_contents (url, removed_at) SELECT u, $2 FROM unnest($1::text[]) u`, c.Removal.URLs, c.Now)
	}
	if c.Filled == nil {
		putContexts.queue(b, c.ContextsInOrder())
		return
	}
	fillContexts.queue(b, c.ContextsInOrder())
	b.Queue(`UPDATE context_fill SET below = $1`, *c.Filled)
}
