package sqlite

import (
	"context"
	"encoding/json"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/store"
)

const contextColumns = `x.id, x.tasks, x.unfinished, x.tokens, x.cost_nano, x.worker_id, x.created_at, x.last_used_at, x.updated_at,
	(SELECT NULLIF(s.session_id, '') FROM transcripts s WHERE s.context_id = x.id), (SELECT s.size FROM transcripts s WHERE s.context_id = x.id), (SELECT s.workspace_size FROM transcripts s WHERE s.context_id = x.id)`

func scanContext(r row) bloom.Context {
	return bloom.Context{
		ID: r.str(0), Tasks: r.int(1), Unfinished: r.int(2), Tokens: r.int(3), CostUSD: bloom.Dollars(r.int(4)), WorkerID: r.strp(5),
		CreatedAt: r.int(6), LastUsedAt: r.int(7), UpdatedAt: r.int(8), SessionID: r.strp(9), Size: r.int(10), Workspace: r.int(11),
	}
}

// Context reads one context.
func (d *database) Context(ctx context.Context, id string) (bloom.Context, error) {
	return read(ctx, d, func(c *conn) (bloom.Context, error) {
		return found(c, scanContext, bloom.ErrContextNotFound, `SELECT `+contextColumns+` FROM contexts x WHERE x.id = ?`, id)
	})
}

// Contexts lists contexts, the one with the newest task first.
func (d *database) Contexts(ctx context.Context, q bloom.ContextQuery) ([]bloom.Context, bloom.Cursor, error) {
	l := listing[bloom.Context]{table: "contexts", columns: contextColumns, scan: scanContext}
	pg, err := read(ctx, d, func(c *conn) (page[bloom.Context], error) { return l.page(c, q.Page) })
	return pg.items, pg.next, err
}

const transcriptColumns = `session_id, size, sha256, parts, workspace`

func scanTranscript(r row) bloom.Transcript {
	t := bloom.Transcript{SessionID: r.str(0), Size: r.int(1), SHA256: r.str(2)}
	_ = json.Unmarshal([]byte(r.str(3)), &t.Parts)
	t.Workspace = bloom.ParseSnapshot(r.str(4))
	return t
}

// Transcript reads a context's transcript, nil when there is none.
func (d *database) Transcript(ctx context.Context, contextID string) (*bloom.Transcript, error) {
	return read(ctx, d, func(c *conn) (*bloom.Transcript, error) {
		return optional(c, scanTranscript, `SELECT `+transcriptColumns+` FROM transcripts WHERE context_id = ?`, contextID)
	})
}

// TranscriptIn reads the transcript whose parts lie in a folder, nil when there is none.
func (d *database) TranscriptIn(ctx context.Context, folder string) (*bloom.Transcript, error) {
	return read(ctx, d, func(c *conn) (*bloom.Transcript, error) {
		return optional(c, scanTranscript, `SELECT `+transcriptColumns+` FROM transcripts WHERE folder = ?`, folder)
	})
}

// LocalParts tells that a part lies in a folder; the index transcripts_local has the same
// words.
const localParts = `instr(parts, '"file:') + instr(workspace, '"file:') > 0`

// Transcripts lists transcripts in the order of their contexts' ids.
func (d *database) Transcripts(ctx context.Context, after string, limit int, local bool) ([]bloom.ContextTranscript, error) {
	query := `SELECT ` + transcriptColumns + `, context_id FROM transcripts WHERE context_id > ? ORDER BY context_id LIMIT +?`
	if local {
		query = `SELECT ` + transcriptColumns + `, context_id FROM transcripts INDEXED BY transcripts_local WHERE ` + localParts + ` AND context_id > ? ORDER BY context_id LIMIT +?`
	}
	return read(ctx, d, func(c *conn) ([]bloom.ContextTranscript, error) {
		return collect(c, func(r row) bloom.ContextTranscript {
			return bloom.ContextTranscript{ContextID: r.str(5), Transcript: scanTranscript(r)}
		}, query, after, limit)
	})
}

// Forgotten lists contexts that were forgotten after the given number.
func (d *database) Forgotten(ctx context.Context, after int64, limit int) ([]bloom.ForgottenContext, error) {
	return read(ctx, d, func(c *conn) ([]bloom.ForgottenContext, error) {
		return collect(c, func(r row) bloom.ForgottenContext {
			return bloom.ForgottenContext{Seq: r.int(0), ID: r.str(1), At: r.int(2)}
		},
			`SELECT seq, context_id, at FROM forgotten_contexts WHERE seq > ? ORDER BY seq LIMIT +?`, after, bloom.Page{Limit: limit}.Size())
	})
}

// OldContexts lists contexts in the order of their newest tasks.
func (d *database) OldContexts(ctx context.Context, after int64, limit int) ([]store.AgedContext, error) {
	return read(ctx, d, func(c *conn) ([]store.AgedContext, error) {
		return collect(c, func(r row) store.AgedContext {
			return store.AgedContext{Seq: r.int(0), Context: bloom.Context{ID: r.str(1), LastUsedAt: r.int(2), UpdatedAt: r.int(3), Unfinished: r.int(4)}}
		}, `SELECT seq, id, last_used_at, updated_at, unfinished FROM contexts INDEXED BY contexts_seq WHERE seq > ? ORDER BY seq LIMIT +?`, after, limit)
	})
}

// Unfilled lists the newest of the tasks that are in no context yet.
func (d *database) Unfilled(ctx context.Context, limit int) (below int64, ids []string, err error) {
	ids, err = read(ctx, d, func(c *conn) ([]string, error) {
		if below, err = c.number(`SELECT below FROM context_fill`); err != nil || below == 0 {
			return nil, err
		}
		return collect(c, func(r row) string { return r.str(0) }, `SELECT id FROM llm_tasks WHERE seq < ? ORDER BY seq DESC LIMIT +?`, below, limit)
	})
	return below, ids, err
}

func (t *tx) loadContexts(want *store.ReadSet, rows *store.Rows) error {
	if want.Filled {
		below, err := t.number(`SELECT below FROM context_fill`)
		if err != nil {
			return err
		}
		rows.Filled = &below
	}
	if err := load(want.Contexts, rows.Contexts, func(id string) (*bloom.Context, error) {
		return optional(t.conn, scanContext, `SELECT `+contextColumns+` FROM contexts x WHERE x.id = ?`, id)
	}); err != nil {
		return err
	}
	if err := load(want.Scripts, rows.Scripts, func(id string) (*bloom.Transcript, error) {
		return optional(t.conn, scanTranscript, `SELECT `+transcriptColumns+` FROM transcripts WHERE context_id = ?`, id)
	}); err != nil {
		return err
	}
	return load(want.Spent, rows.Spent, func(task string) (store.Spent, error) {
		r, ok, err := t.one(`SELECT CAST(TOTAL(MIN(json_extract(m, '$.tokens_used'), ?2)) AS INTEGER),
				CAST(ROUND(TOTAL(MIN(json_extract(m, '$.cost_usd'), ?3)) * 1e9) AS INTEGER)
			FROM (SELECT CASE WHEN json_valid(metrics) THEN metrics ELSE '{}' END AS m FROM llm_results WHERE task_id = ?1)`, task, bloom.MaxTokens, int64(bloom.MaxCostUSD))
		if err != nil || !ok {
			return store.Spent{}, err
		}
		return store.Spent{Tokens: r.int(0), CostNano: r.int(1)}, nil
	})
}

// addToContext adds a difference. The worker of an older task (?11) is only taken
// where there is none.
const addToContext = `INSERT INTO contexts AS c (id, seq, created_at, last_used_at, updated_at, tasks, unfinished, tokens, cost_nano, worker_id)
	VALUES (?1,?2,?3,?4,?5,?6,?7,?8,?9,?10)
	ON CONFLICT (id) DO UPDATE SET seq = MAX(c.seq, ?2), created_at = MIN(c.created_at, ?3), last_used_at = MAX(c.last_used_at, ?4),
		updated_at = MAX(c.updated_at, ?5), tasks = c.tasks + ?6, unfinished = c.unfinished + ?7, tokens = c.tokens + ?8, cost_nano = c.cost_nano + ?9,
		worker_id = CASE WHEN ?11 THEN COALESCE(c.worker_id, ?10) ELSE COALESCE(?10, c.worker_id) END`

// workedInContext adds what does not concern the index of contexts, as all but new tasks
// do.
const workedInContext = `UPDATE contexts SET updated_at = MAX(updated_at, ?2), unfinished = unfinished + ?3, tokens = tokens + ?4,
	cost_nano = cost_nano + ?5, worker_id = COALESCE(?6, worker_id) WHERE id = ?1`

func (t *tx) putContexts(c *store.Changes) error {
	for _, x := range c.ContextsInOrder() {
		if x.Tasks == 0 {
			n, err := t.exec(workedInContext, x.ID, x.UpdatedAt, x.Unfinished, x.Tokens, x.CostNano, x.WorkerID)
			if err != nil {
				return err
			}
			if n > 0 {
				continue
			}
		}
		if _, err := t.exec(addToContext, x.ID, x.Seq, x.CreatedAt, x.LastUsedAt, x.UpdatedAt, x.Tasks, x.Unfinished, x.Tokens, x.CostNano, x.WorkerID,
			c.Filled != nil); err != nil {
			return err
		}
	}
	if err := t.putTranscripts(c); err != nil || c.Filled == nil {
		return err
	}
	return t.set(`UPDATE context_fill SET below = ?`, *c.Filled)
}

func (t *tx) putTranscripts(c *store.Changes) error {
	for id, x := range c.Scripts {
		var err error
		if x == nil {
			_, err = t.exec(`DELETE FROM transcripts WHERE context_id = ?`, id)
		} else {
			_, err = t.exec(`INSERT INTO transcripts (context_id, folder, updated_at, size, session_id, sha256, parts, workspace, workspace_size) VALUES (?1,?2,?3,?4,?5,?6,?7,?8,?9)
				ON CONFLICT (context_id) DO UPDATE SET updated_at = ?3, size = ?4, session_id = ?5, sha256 = ?6, parts = ?7, workspace = ?8, workspace_size = ?9`,
				id, bloom.TranscriptFolder(id), c.Now, x.Size, x.SessionID, x.SHA256, string(bloom.MustJSON(x.Parts)), x.Workspace.Text(), x.Workspace.Bytes())
		}
		if err != nil {
			return err
		}
	}
	for _, id := range c.Forgotten {
		if _, err := t.exec(`DELETE FROM contexts WHERE id = ?`, id); err != nil {
			return err
		}
		if _, err := t.exec(`INSERT INTO forgotten_contexts (at, context_id) VALUES (?, ?)`, c.Now, id); err != nil {
			return err
		}
	}
	for _, url := range c.Removal.URLs {
		if _, err := t.exec(`INSERT INTO removed_contents (url, removed_at) VALUES (?, ?)`, url, c.Now); err != nil {
			return err
		}
	}
	return nil
}
