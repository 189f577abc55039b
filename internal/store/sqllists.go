package store

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/bloom-runtime/bloom"
)

// list reads one page of a listing.
func list[T any](ctx context.Context, r *Reads, l *listing[T], p bloom.Page) (items []T, next bloom.Cursor, err error) {
	l.Dialect = r.Dialect
	err = r.Source.Run(ctx, func(c Conn) (err error) {
		items, next, err = l.page(ctx, c, p)
		return err
	})
	return items, next, err
}

// cut returns an expression for the first n characters of a text column.
func cut(column string, n int) string { return fmt.Sprintf("substr(%s, 1, %d)", column, n) }

// Tasks lists tasks, the newest first.
func (r *Reads) Tasks(ctx context.Context, q bloom.TaskQuery) (tasks []bloom.Task, next bloom.Cursor, err error) {
	columns := r.wholeColumns()
	if n := q.TextWindow(); q.TextBytes > 0 {
		columns = r.TaskColumns() + fmt.Sprintf(`, CASE WHEN length(%s) <= %d THEN t.context_hints ELSE 'null' END, `, fmt.Sprintf(r.ListText, "t.context_hints"), n) +
			cut("t.prompt", n)
	}
	l := &listing[Task]{from: "llm_tasks", as: "t", columns: columns, fields: wholeFields}
	l.also(fmt.Sprintf(r.ShortID, "t.id"), q.ShortID)
	l.also("t.context_id", q.ContextID)
	l.also("t.worker_id", q.WorkerID)
	r.status(l, q.Status)
	l.also("t.agent_slug", q.AgentSlug)
	if q.Error != "" { // it has no index
		l.only("t.error_class", q.Error)
	}
	for _, label := range q.Labels { // nor have they
		l.filter += " AND " + fmt.Sprintf(r.Has, "t.labels", l.arg(label))
	}
	if q.Status == bloom.TaskCompleted { // nearly all tasks are, so the table is scanned
		l.only("t.status", string(q.Status))
	}
	var found []Task
	if q.Text == "" {
		found, next, err = list(ctx, r, l, q.Page)
	} else {
		l.Dialect = r.Dialect
		err = r.Source.Run(ctx, func(c Conn) (err error) {
			found, next, err = l.finder(ctx, r.Source, c).Search(q.Text, q.Page)
			return err
		})
	}
	tasks = make([]bloom.Task, 0, len(found))
	for i := range found {
		found[i].CutTexts(q.TextBytes)
		tasks = append(tasks, found[i].Task)
	}
	if err == nil {
		err = r.addTaskUsage(ctx, tasks)
	}
	return tasks, next, err
}

// status restricts tasks to a status. An index has the failed and waiting ones. Tasks
// that are leased are found by their active leases, of which there are no more than
// slots.
func (r *Reads) status(l *listing[Task], status bloom.TaskStatus) {
	switch {
	case status == "" || status == bloom.TaskCompleted:
	case l.by != "":
		l.only("t.status", string(status))
	case status.Held():
		l.first(fmt.Sprintf(r.Among, "t.id", "SELECT h.task_id FROM leases h WHERE h.status = 'active'")+" AND t.status || '' = %s", string(status))
	default:
		l.first(r.Phase, string(status))
	}
}

// Leases lists leases, the newest first.
func (r *Reads) Leases(ctx context.Context, q bloom.LeaseQuery) ([]bloom.Lease, bloom.Cursor, error) {
	l := &listing[bloom.Lease]{from: "leases", as: "l", columns: leaseColumns, fields: leaseFields}
	switch {
	case q.TaskID != "" && !isID(q.TaskID):
		return []bloom.Lease{}, bloom.Cursor{}, nil
	case q.TaskID != "":
		l.first(fmt.Sprintf(r.Among, "l.seq", leasesOfTask), q.TaskID)
		if q.Status != "" {
			l.only("l.status", string(q.Status))
		}
	case q.Status == bloom.LeaseActive:
		l.by = fmt.Sprintf(r.Among, "l.seq", "SELECT h.seq FROM leases h WHERE h.status = 'active'")
	case q.Status == bloom.LeaseReleased: // nearly all leases are, so the table is scanned
		l.only("l.status", string(q.Status))
	case q.Status != "":
		l.first("l.status IN ('expired','failed') AND l.status = %s", string(q.Status))
	}
	if q.WorkerID != "" { // an index has only its active ones
		l.only("l.worker_id", q.WorkerID)
	}
	return list(ctx, r, l, q.Page)
}

// leasesOfTask are the leases of the task %[1]s. One index has the active lease, another the others.
const leasesOfTask = "SELECT h.seq FROM leases h WHERE h.task_id = %[1]s AND h.status = 'active' UNION ALL SELECT h.seq FROM leases h WHERE h.task_id = %[1]s AND h.status <> 'active'"

// Artifacts lists artifacts, the newest first.
func (r *Reads) Artifacts(ctx context.Context, q bloom.ArtifactQuery) ([]bloom.Artifact, bloom.Cursor, error) {
	columns := artifactColumns
	if q.TextBytes > 0 {
		columns = strings.TrimSuffix(columns, "a.content") + cut("a.content", q.TextWindow())
	}
	l := &listing[bloom.Artifact]{from: "runtime_artifacts", as: "a", columns: columns, fields: artifactFields}
	switch {
	case q.TaskID != "" && !isID(q.TaskID):
		return []bloom.Artifact{}, bloom.Cursor{}, nil
	case q.TaskID != "":
		l.first("a.task_id = %s", q.TaskID)
	case q.ShortID != "":
		l.first(fmt.Sprintf(r.ShortID, "a.id")+" = %s", q.ShortID)
	case q.Displaced:
		l.by = r.True("a.displaced")
	}
	if q.Type != "" { // it has no index
		l.only("a.type", q.Type)
	}
	items, next, err := list(ctx, r, l, q.Page)
	for i := range items {
		items[i].CutTexts(q.TextBytes)
	}
	return items, next, err
}

// commonActions are those of every task; no index has them.
var commonActions = []string{bloom.ActionTaskCreated, bloom.ActionTaskLeased, bloom.ActionTaskStarted, bloom.ActionTaskCompleted}

// Audit lists audit entries, the newest first.
func (r *Reads) Audit(ctx context.Context, q bloom.AuditQuery) ([]bloom.Audit, bloom.Cursor, error) {
	l := &listing[bloom.Audit]{
		from: "audit_logs", as: "a", columns: AuditColumns + `, (SELECT c.hash FROM audit_chain c WHERE c.seq = a.seq)`,
		fields: func(a *bloom.Audit) []any { return append(AuditFields(a), (*Hash)(&a.Hash)) },
	}
	l.also("a.entity_id", q.EntityID)
	switch {
	case q.Action == "":
	case slices.Contains(commonActions, q.Action) || l.by != "":
		l.only("a.action", q.Action)
	default:
		l.first("a.action NOT IN ('task_created','task_leased','task_started','task_completed') AND a.action = %s", q.Action)
	}
	return list(ctx, r, l, q.Page)
}

// Contexts lists contexts, that with the newest task first.
func (r *Reads) Contexts(ctx context.Context, q bloom.ContextQuery) ([]bloom.Context, bloom.Cursor, error) {
	l := &listing[bloom.Context]{from: "contexts", as: "x", columns: contextColumns, fields: contextFields}
	if q.ShortID != "" { // its index has no seq, which every new task changes
		l.first(fmt.Sprintf(r.Among, "x.seq", "SELECT h.seq FROM contexts h WHERE "+fmt.Sprintf(r.ShortID, "h.id")+" = %[1]s"), q.ShortID)
	}
	contexts, next, err := list(ctx, r, l, q.Page)
	if err == nil {
		err = r.addContextUsage(ctx, contexts)
	}
	return contexts, next, err
}

// Keys lists keys, the newest first.
func (r *Reads) Keys(ctx context.Context, p bloom.Page) ([]bloom.APIKey, bloom.Cursor, error) {
	known, next, err := list(ctx, r, &listing[bloom.StoredKey]{from: "api_keys", as: "x", columns: keyColumns, fields: keyFields}, p)
	keys := make([]bloom.APIKey, 0, len(known))
	for _, k := range known {
		keys = append(keys, k.APIKey)
	}
	return keys, next, err
}

// Sessions lists sessions, the newest first.
func (r *Reads) Sessions(ctx context.Context, p bloom.Page) ([]bloom.BrowserSession, bloom.Cursor, error) {
	known, next, err := list(ctx, r, &listing[bloom.StoredSession]{from: "sessions", as: "x", columns: sessionColumns, fields: sessionFields}, p)
	sessions := make([]bloom.BrowserSession, 0, len(known))
	for _, k := range known {
		sessions = append(sessions, k.BrowserSession)
	}
	return sessions, next, err
}
