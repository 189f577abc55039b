package search

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/audit"
	"github.com/bloom-runtime/bloom/internal/input"
	"github.com/bloom-runtime/bloom/internal/storable"
)

// Bulk is an operation on all tasks that match a filter.
type Bulk struct {
	Name     string             // in the route
	done     string             // in the audit
	statuses []bloom.TaskStatus // of the tasks that it changes, in the order in which tasks pass through them
}

// The bulk operations.
var (
	BulkCancel  = Bulk{"cancel", "Cancelled", []bloom.TaskStatus{bloom.TaskQueued, bloom.TaskLeased, bloom.TaskRunning}}
	BulkRequeue = Bulk{"requeue", "Requeued", []bloom.TaskStatus{bloom.TaskFailed, bloom.TaskDead, bloom.TaskCancelled}}
)

// bulkPages limits the pages of the store that one request reads. Each page reads a
// bounded number of rows, even if few of them match.
const bulkPages = 50

// Matching lists the ids of the next tasks that an operation changes, newest first
// within each status, and where to continue; next is "" if there are no more.
// Following next visits each task once, however the tasks change meanwhile.
func (s *Store) Matching(ctx context.Context, op Bulk, m bloom.TasksMatching) (ids []string, next string, err error) {
	input.Normalize(&m)
	if m.Empty() {
		return nil, "", bloom.Invalid("Name at least one condition", bloom.FieldError{Field: "status", Message: "must be given, or another condition"})
	}
	statuses := op.statuses
	if m.Status != "" {
		statuses = slices.DeleteFunc(slices.Clone(statuses), func(is bloom.TaskStatus) bool { return is != m.Status })
	}
	at, cursor, err := bulkPosition(m.Next, statuses)
	if err != nil {
		return nil, "", err
	}
	most := bloom.MaxBulkTasks
	if m.DryRun {
		most = MaxTasksCounted
	}
	for range bulkPages {
		if at >= len(statuses) {
			return ids, "", nil
		}
		if len(ids) >= most {
			break
		}
		q := bloom.TaskQuery{Status: statuses[at], ContextID: m.ContextID, AgentSlug: m.AgentSlug, WorkerID: m.WorkerID, Error: m.Error, Labels: m.Labels, Since: m.Since, Until: m.Until, Text: m.Text,
			Page: bloom.Page{Limit: min(most-len(ids), bloom.MaxPageSize), TextBytes: 1, Cursor: cursor}}
		var tasks []bloom.Task
		if tasks, cursor, err = s.searchOnce(ctx, q); err != nil {
			return nil, "", err
		}
		for _, t := range tasks {
			if !t.CancelRequested || t.Status.Terminal() {
				ids = append(ids, t.ID)
			}
		}
		if cursor == (bloom.Cursor{}) {
			at++
		}
	}
	if at >= len(statuses) {
		return ids, "", nil
	}
	return ids, string(statuses[at]) + "." + cursor.String(), nil
}

// bulkPosition parses next: an index in statuses, and a cursor in the tasks of that
// status.
func bulkPosition(next string, statuses []bloom.TaskStatus) (at int, cursor bloom.Cursor, err error) {
	if next == "" {
		return 0, cursor, nil
	}
	status, rest, _ := strings.Cut(next, ".")
	if at = slices.Index(statuses, bloom.TaskStatus(status)); at < 0 {
		return 0, cursor, bloom.Invalid("The cursor does not belong to this request", bloom.FieldError{Field: "next", Message: "must be next of the previous answer, with the same conditions"})
	}
	cursor, err = bloom.ParseCursor(rest)
	return at, cursor, err
}

func when(at int64) string {
	if at == 0 {
		return ""
	}
	return time.UnixMilli(at).UTC().Format(time.RFC3339)
}

// maxDetail is how much of a filter is in the sentence of the audit, in bytes; all of it is in the data.
const maxDetail = 512

// AuditMatched records who changed all matching tasks, in addition to the entry of
// each task.
func (s *Store) AuditMatched(ctx context.Context, op Bulk, m bloom.TasksMatching, done bloom.TasksMatched, actor string) error {
	var of []string
	for _, c := range [][2]string{{"status", string(m.Status)}, {"context", m.ContextID}, {"agent", m.AgentSlug}, {"worker", m.WorkerID}, {"error", m.Error}, {"labels", strings.Join(m.Labels, ", ")}, {"since", when(m.Since)}, {"until", when(m.Until)}, {"text", m.Text}} {
		if c[1] != "" {
			of = append(of, fmt.Sprintf("%s %q", c[0], c[1]))
		}
	}
	return s.rows.AppendAudit(ctx, bloom.Audit{Action: audit.ActionTasksMatched, EntityType: audit.EntityQueue, EntityID: op.Name, Actor: actor,
		Detail: fmt.Sprintf("%s %d of %d tasks with %s", op.done, done.Changed, done.Matched, storable.Cut(strings.Join(of, ", "), maxDetail)), Data: storable.MustJSON(m)})
}
