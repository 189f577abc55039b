package sqlite

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/bloom-runtime/bloom"
)

// scanRows bounds the work of one list call.
const scanRows = 20_000

// listing is a list newest first. Its index leads with what By says; the other
// conditions are tried on at most scanRows entries of it.
type listing[T any] struct {
	table, columns string
	scan           func(row) T
	by             string // condition that an index answers, "" for the table itself
	byArg          string // of by, if it has one
	filter         string // " AND …" on what the index leaves
	filterArgs     []any
}

type page[T any] struct {
	items []T
	next  bloom.Cursor
}

// page reads one page. Every row's first column is seq.
func (l listing[T]) page(c *conn, p bloom.Page) (pg page[T], err error) {
	limit, before, floor := p.Size(), p.Cursor.Before, int64(0)
	if before == 0 {
		before = math.MaxInt64
	}
	where, args := "x.seq < ?", []any{before}
	if l.by != "" {
		where = l.by + " AND " + where
	}
	if l.byArg != "" {
		args = []any{l.byArg, before}
	}
	if l.filter != "" {
		// The lowest entry this call may look at; none means all of the rest.
		if floor, err = c.number(`SELECT x.seq FROM `+l.table+` x WHERE `+where+` ORDER BY x.seq DESC LIMIT 1 OFFSET +?`, append(slices.Clone(args), scanRows-1)...); err != nil {
			return pg, err
		}
	}
	args = append(append(args, floor), l.filterArgs...)
	pg.items = make([]T, 0, min(limit, 16))
	last, more := int64(0), false
	err = c.each(`SELECT x.seq, `+l.columns+` FROM `+l.table+` x WHERE `+where+` AND x.seq >= ?`+l.filter+` ORDER BY x.seq DESC LIMIT +?`,
		func(r row) error {
			if more = len(pg.items) == limit; more {
				return errStop
			}
			last = r.int(0)
			pg.items = append(pg.items, l.scan(r[1:]))
			return nil
		}, append(args, limit+1)...)
	switch {
	case more:
		pg.next.Before = last
	case floor > 1:
		pg.next.Before = floor
	}
	return pg, err
}

// also adds a condition that the index does not answer.
func (l *listing[T]) also(column, value string) {
	switch {
	case value == "":
	case l.by == "":
		l.by, l.byArg = column+" = ?", value
	default:
		// The plus keeps the planner from the filter's own index, whose entries
		// nothing bounds.
		l.filter += " AND +" + column + " = ?"
		l.filterArgs = append(l.filterArgs, value)
	}
}

// Tasks lists tasks, the newest first.
func (d *database) Tasks(ctx context.Context, q bloom.TaskQuery) ([]bloom.Task, bloom.Cursor, error) {
	columns := strings.ReplaceAll(wholeColumns, "t.", "x.")
	if n := q.TextWindow(); q.TextBytes > 0 {
		columns = strings.Replace(columns, "x.context_hints, x.prompt", fmt.Sprintf(
			"CASE WHEN length(x.context_hints) <= %d THEN x.context_hints ELSE 'null' END, substr(x.prompt, 1, %d)", n, n), 1)
	}
	l := listing[bloom.Task]{table: "llm_tasks", columns: columns, scan: func(r row) bloom.Task {
		t := scanWhole(r).Task
		t.CutTexts(q.TextBytes)
		return t
	}}
	l.also("x.context_id", q.ContextID)
	l.also("x.worker_id", q.WorkerID)
	switch {
	case q.Status == "" || q.Status == bloom.TaskCompleted: // nearly all are: the table itself serves as their index
	case l.by != "":
		l.also("x.status", string(q.Status))
	case q.Status.Held():
		l.by, l.byArg = "x.id IN (SELECT task_id FROM leases WHERE status = 'active') AND +x.status = ?", string(q.Status)
	default:
		l.by, l.byArg = "x.status IN ('queued','failed','dead','cancelled') AND x.status = ?", string(q.Status)
	}
	l.also("x.agent_slug", q.AgentSlug)
	if q.Error != "" { // no index has it
		l.filter += " AND x.error_class = ?"
		l.filterArgs = append(l.filterArgs, q.Error)
	}
	if q.Status == bloom.TaskCompleted {
		l.filter += " AND x.status = 'completed'"
	}
	pg, err := read(ctx, d, func(c *conn) (pg page[bloom.Task], err error) {
		if q.Text != "" {
			pg.items, pg.next, err = l.finder(ctx, d, c).Search(q.Text, q.Page)
			return pg, err
		}
		return l.page(c, q.Page)
	})
	return pg.items, pg.next, err
}

// Leases lists leases, the newest first.
func (d *database) Leases(ctx context.Context, q bloom.LeaseQuery) ([]bloom.Lease, bloom.Cursor, error) {
	l := listing[bloom.Lease]{table: "leases", columns: strings.ReplaceAll(leaseColumns, "l.", "x."), scan: scanLease}
	switch q.Status {
	case "":
	case bloom.LeaseReleased:
		l.filter = " AND x.status = 'released'"
	case bloom.LeaseActive:
		l.by, l.byArg = "x.id IN (SELECT id FROM leases WHERE status = 'active') AND +x.status = ?", string(q.Status)
	default:
		l.by, l.byArg = "x.status IN ('expired','failed') AND x.status = ?", string(q.Status)
	}
	pg, err := read(ctx, d, func(c *conn) (page[bloom.Lease], error) { return l.page(c, q.Page) })
	return pg.items, pg.next, err
}

// Artifacts lists artifacts, the newest first.
func (d *database) Artifacts(ctx context.Context, q bloom.ArtifactQuery) ([]bloom.Artifact, bloom.Cursor, error) {
	columns := strings.ReplaceAll(artifactColumns, "a.", "x.")
	if q.TextBytes > 0 {
		columns = strings.Replace(columns, "x.content", fmt.Sprintf("substr(x.content, 1, %d)", q.TextWindow()), 1)
	}
	l := listing[bloom.Artifact]{table: "runtime_artifacts", columns: columns, scan: func(r row) bloom.Artifact {
		a := scanArtifact(r)
		a.CutTexts(q.TextBytes)
		return a
	}}
	l.also("x.task_id", q.TaskID)
	if q.Displaced && q.TaskID == "" {
		l.by = "x.displaced = 1"
	}
	pg, err := read(ctx, d, func(c *conn) (page[bloom.Artifact], error) { return l.page(c, q.Page) })
	return pg.items, pg.next, err
}

// Audit lists audit entries, the newest first.
func (d *database) Audit(ctx context.Context, q bloom.AuditQuery) ([]bloom.Audit, bloom.Cursor, error) {
	l := listing[bloom.Audit]{
		table: "audit_logs", columns: strings.ReplaceAll(auditColumns, "a.", "x.") + `, (SELECT c.hash FROM audit_chain c WHERE c.seq = x.seq)`,
		scan: func(r row) bloom.Audit {
			a := scanAudit(r)
			a.Hash = r.hex(11)
			return a
		},
	}
	l.also("x.entity_id", q.EntityID)
	switch q.Action {
	case bloom.ActionTaskCreated, bloom.ActionTaskLeased, bloom.ActionTaskStarted, bloom.ActionTaskCompleted:
		l.filter, l.filterArgs = " AND +x.action = ?", []any{q.Action}
	case "":
	default:
		if l.by == "" {
			l.by, l.byArg = "x.action NOT IN ('task_created','task_leased','task_started','task_completed') AND x.action = ?", q.Action
		} else {
			l.also("x.action", q.Action)
		}
	}
	pg, err := read(ctx, d, func(c *conn) (page[bloom.Audit], error) { return l.page(c, q.Page) })
	return pg.items, pg.next, err
}
