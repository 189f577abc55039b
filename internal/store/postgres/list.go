package postgres

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/store"
)

// Bounds of the work of one list call.
const (
	scanRows  = 20_000 // entries looked at
	scanFirst = 1_000  // of which these at first
)

// listing is a list newest first. Its index leads with what by says; the other
// conditions are tried on at most scanRows entries of it. Arguments are numbered
// from $2 on: $1 is the place in the list.
type listing[T any] struct {
	table, columns string
	fields         func(*T) []any
	by             string // conditions that an index answers, "" for the table itself
	filter         string // " AND …" on what the index leaves
	args           []any
	byArgs         int // how many of args belong to by
}

type page[T any] struct {
	items []T
	next  bloom.Cursor
}

func (l *listing[T]) arg(v any) string {
	l.args = append(l.args, v)
	return fmt.Sprintf("$%d", len(l.args)+1)
}

// where is the condition by which the list walks along its index.
func (l *listing[T]) where() string {
	if l.by == "" {
		return "x.seq < $1"
	}
	return l.by + " AND x.seq < $1"
}

// page reads one page. What the index does not answer is tried on a few entries
// first, and only when they do not fill the page on as many as one call may look
// at.
func (l *listing[T]) page(ctx context.Context, c reader, p bloom.Page) (pg page[T], err error) {
	if l.filter == "" {
		return l.pageFrom(ctx, c, p, 0)
	}
	for _, window := range []int{scanFirst, scanRows} {
		floor, err := l.floor(ctx, c, place(p.Cursor), window)
		if err != nil {
			return pg, err
		}
		pg, err = l.pageFrom(ctx, c, p, floor)
		if err != nil || floor <= 1 || len(pg.items) == p.Size() {
			return pg, err
		}
	}
	return pg, nil
}

// floor is the lowest entry that a call may look at; 0 means all of the rest.
func (l *listing[T]) floor(ctx context.Context, c reader, before int64, window int) (int64, error) {
	floors, err := collect(ctx, c, scanInt, fmt.Sprintf(`SELECT x.seq FROM %s x WHERE %s ORDER BY x.seq DESC LIMIT 1 OFFSET %d`, l.table, l.where(), window-1),
		l.place(before, l.byArgs)...)
	if err != nil || len(floors) == 0 {
		return 0, err
	}
	return floors[0], nil
}

// pageFrom reads a page of entries not below floor.
func (l *listing[T]) pageFrom(ctx context.Context, c reader, p bloom.Page, floor int64) (pg page[T], err error) {
	limit := p.Size()
	type entry struct {
		seq  int64
		item T
	}
	args := append(l.place(place(p.Cursor), len(l.args)), floor, limit+1)
	rows, err := c.Query(ctx, fmt.Sprintf(`SELECT x.seq, %s FROM %s x WHERE %s AND x.seq >= $%d%s ORDER BY x.seq DESC LIMIT $%d`,
		l.columns, l.table, l.where(), len(args)-1, l.filter, len(args)), append([]any{pgx.QueryExecModeCacheDescribe}, args...)...)
	if err != nil {
		return pg, err
	}
	found, err := gather(rows, func(r pgx.Rows) (e entry, err error) {
		err = r.Scan(append([]any{&e.seq}, l.fields(&e.item)...)...)
		return e, err
	})
	if err != nil {
		return pg, err
	}
	switch {
	case len(found) > limit:
		found = found[:limit]
		pg.next.Before = found[limit-1].seq
	case floor > 1:
		pg.next.Before = floor
	}
	pg.items = make([]T, 0, len(found))
	for _, e := range found {
		pg.items = append(pg.items, e.item)
	}
	return pg, nil
}

func place(c bloom.Cursor) int64 {
	if c.Before == 0 {
		return math.MaxInt64
	}
	return c.Before
}

func (l *listing[T]) place(before int64, n int) []any {
	return append([]any{before}, slices.Clone(l.args[:n])...)
}

// also adds a condition that the index does not answer.
func (l *listing[T]) also(column, value string) {
	switch {
	case value == "":
	case l.by == "":
		l.by = column + " = " + l.arg(value)
		l.byArgs = 1
	default:
		// The expression keeps the planner from the filter's own index, whose
		// entries nothing bounds.
		l.filter += " AND " + column + " || '' = " + l.arg(value)
	}
}

// status restricts tasks to a status. What has ended badly or waits has an index.
// What is held is found by its lease: there are no more of those than slots.
// Nearly all tasks are completed: the table itself serves as their index.
func (l *listing[T]) status(status bloom.TaskStatus) {
	switch {
	case status == "":
	case status == bloom.TaskCompleted:
		l.filter += " AND x.status = " + l.arg(status)
	case l.by != "":
		l.also("x.status", string(status))
	case status.Held():
		l.by = "x.id = ANY(ARRAY(SELECT h.task_id FROM leases h WHERE h.status = 'active')) AND x.status = " + l.arg(status)
		l.byArgs = 1
	default:
		l.also("x.phase", string(status))
	}
}

// Tasks lists tasks, the newest first.
func (d *database) Tasks(ctx context.Context, q bloom.TaskQuery) ([]bloom.Task, bloom.Cursor, error) {
	columns := strings.ReplaceAll(wholeColumns, "t.", "x.")
	if n := q.TextWindow(); q.TextBytes > 0 {
		columns = strings.Replace(columns, "x.context_hints, x.prompt", fmt.Sprintf(
			"CASE WHEN length(x.context_hints::text) <= %d THEN x.context_hints ELSE 'null' END, substr(x.prompt, 1, %d)", n, n), 1)
	}
	l := listing[store.Task]{table: "llm_tasks", columns: columns, fields: wholeFields}
	l.also("x.context_id", q.ContextID)
	l.also("x.worker_id", q.WorkerID)
	if q.Status != bloom.TaskCompleted {
		l.status(q.Status)
	}
	l.also("x.agent_slug", q.AgentSlug)
	if q.Error != "" { // no index has it
		l.filter += " AND x.error_class = " + l.arg(q.Error)
	}
	if q.Status == bloom.TaskCompleted {
		l.status(q.Status)
	}
	pg, err := read(ctx, d, func(c reader) (pg page[store.Task], err error) {
		if q.Text != "" {
			pg.items, pg.next, err = l.finder(ctx, c).Search(q.Text, q.Page)
			return pg, err
		}
		return l.page(ctx, c, q.Page)
	})
	tasks := make([]bloom.Task, 0, len(pg.items))
	for i := range pg.items {
		pg.items[i].CutTexts(q.TextBytes)
		tasks = append(tasks, pg.items[i].Task)
	}
	return tasks, pg.next, err
}

// Leases lists leases, the newest first.
func (d *database) Leases(ctx context.Context, q bloom.LeaseQuery) ([]bloom.Lease, bloom.Cursor, error) {
	l := listing[bloom.Lease]{table: "leases", columns: strings.ReplaceAll(leaseColumns, "l.", "x."), fields: leaseFields}
	switch q.Status {
	case "":
	case bloom.LeaseReleased:
		l.filter = " AND x.status = 'released'"
	case bloom.LeaseActive:
		l.by = "x.seq = ANY(ARRAY(SELECT h.seq FROM leases h WHERE h.status = 'active'))"
	default:
		l.by, l.byArgs = "x.status IN ('expired','failed') AND x.status = "+l.arg(q.Status), 1
	}
	pg, err := read(ctx, d, func(c reader) (page[bloom.Lease], error) { return l.page(ctx, c, q.Page) })
	return pg.items, pg.next, err
}

// Artifacts lists artifacts, the newest first.
func (d *database) Artifacts(ctx context.Context, q bloom.ArtifactQuery) ([]bloom.Artifact, bloom.Cursor, error) {
	columns := strings.ReplaceAll(artifactColumns, "a.", "x.")
	if q.TextBytes > 0 {
		columns = strings.Replace(columns, "x.content", fmt.Sprintf("substr(x.content, 1, %d)", q.TextWindow()), 1)
	}
	l := listing[bloom.Artifact]{table: "runtime_artifacts", columns: columns, fields: artifactFields}
	if q.TaskID != "" && !isID(q.TaskID) {
		return []bloom.Artifact{}, bloom.Cursor{}, nil
	}
	l.also("x.task_id", q.TaskID)
	if q.Displaced && q.TaskID == "" {
		l.by = "x.displaced"
	}
	pg, err := read(ctx, d, func(c reader) (page[bloom.Artifact], error) { return l.page(ctx, c, q.Page) })
	for i := range pg.items {
		pg.items[i].CutTexts(q.TextBytes)
	}
	return pg.items, pg.next, err
}

// Audit lists audit entries, the newest first.
func (d *database) Audit(ctx context.Context, q bloom.AuditQuery) ([]bloom.Audit, bloom.Cursor, error) {
	l := listing[bloom.Audit]{
		table: "audit_logs", columns: strings.ReplaceAll(auditColumns, "a.", "x.") +
			`, coalesce((SELECT encode(c.hash, 'hex') FROM audit_chain c WHERE c.seq = x.seq), '')`,
		fields: func(a *bloom.Audit) []any { return append(auditFields(a), &a.Hash) },
	}
	l.also("x.entity_id", q.EntityID)
	switch action := q.Action; {
	case slices.Contains(common, action):
		l.filter += " AND x.action || '' = " + l.arg(action)
	case action != "" && l.by == "":
		l.by, l.byArgs = "x.action NOT IN ('task_created','task_leased','task_started','task_completed') AND x.action = "+l.arg(action), 1
	default:
		l.also("x.action", action)
	}
	pg, err := read(ctx, d, func(c reader) (page[bloom.Audit], error) { return l.page(ctx, c, q.Page) })
	return pg.items, pg.next, err
}

// common are the actions that every task goes through; they have no index.
var common = []string{bloom.ActionTaskCreated, bloom.ActionTaskLeased, bloom.ActionTaskStarted, bloom.ActionTaskCompleted}

// verbatim is JSON as it is stored.
type verbatim []byte

// Scan takes the column's text.
func (v *verbatim) Scan(src any) error {
	switch src := src.(type) {
	case string:
		*v = verbatim(src)
	case []byte:
		*v = slices.Clone(src)
	}
	return nil
}
