package store

import (
	"context"
	"fmt"

	"github.com/bloom-runtime/bloom"
)

// textsOf reads the indexed texts, cut to the limit of the index.
const textsOf = `SELECT t.seq, t.id, substr(t.prompt, 1, %[1]d), coalesce(r.error_message || ' ', '') || coalesce(substr(a.content, 1, %[1]d), ''), coalesce(a.url, '')
		FROM llm_tasks t LEFT JOIN llm_results r ON r.task_id = t.id AND r.epoch = (SELECT max(l.epoch) FROM llm_results l WHERE l.task_id = t.id)
		LEFT JOIN runtime_artifacts a ON a.id = r.artifact_id WHERE %[2]s`

func textFields(t *bloom.TaskText) []any { return []any{&t.Seq, &t.ID, &t.Prompt, &t.Output, &t.URL} }

// TextsAt reads the indexed texts of tasks by number.
func (r *Reads) TextsAt(ctx context.Context, seqs []int64) ([]bloom.TaskText, error) {
	return all(ctx, r, textFields, fmt.Sprintf(textsOf, bloom.MaxSearchText, r.In("t.seq", 1, "bigint")), r.Array(seqs))
}

// TaskTexts reads the indexed texts of tasks by id.
func (r *Reads) TaskTexts(ctx context.Context, tasks []string) ([]bloom.TaskText, error) {
	return all(ctx, r, textFields, fmt.Sprintf(textsOf, bloom.MaxSearchText, r.In("t.id", 1, "uuid")), r.Array(IDs(tasks)))
}

// SearchRetries lists tasks whose output could not be read.
func (r *Reads) SearchRetries(ctx context.Context, limit int) ([]SearchRetry, error) {
	return all(ctx, r, func(e *SearchRetry) []any { return []any{&e.Task, &e.Tries, &e.Due} },
		`SELECT task, tries, due FROM search_retries ORDER BY due LIMIT CAST($1 AS BIGINT)`, limit)
}

// TasksBelow lists tasks' numbers, the newest first.
func (r *Reads) TasksBelow(ctx context.Context, below int64, limit int) ([]int64, error) {
	return all(ctx, r, Self[int64], `SELECT seq FROM llm_tasks WHERE seq < $1 ORDER BY seq DESC LIMIT CAST($2 AS BIGINT)`, below, limit)
}
