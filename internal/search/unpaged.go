package search

import (
	"cmp"
	"slices"

	"github.com/bloom-runtime/bloom"
)

var (
	openTasks  = []bloom.TaskStatus{bloom.TaskQueued, bloom.TaskLeased, bloom.TaskRunning} // in the order in which they usually change
	endedTasks = []bloom.TaskStatus{bloom.TaskCompleted, bloom.TaskFailed, bloom.TaskDead, bloom.TaskCancelled}
)

// walkPages limits how many pages are read in search of ended tasks, before those
// are queried by status.
const walkPages = 20

// knowsNoPages reports whether the client does not use paging: it sent neither a
// limit nor a cursor.
func knowsNoPages(p bloom.Page) bool { return p.Limit == 0 && p.Cursor == bloom.Cursor{} }

// tasksUnpaged lists tasks for clients without paging: all open ones, up to bloom.MaxPageSize, and
// the newest ended ones, at least bloom.DefaultPageSize. next continues where it stopped. It makes
// several queries, so a task that changes meanwhile may be in the state of any of them. A text
// search is paged anyway, because each page of it may read many rows.
func tasksUnpaged(q bloom.TaskQuery, list func(bloom.TaskQuery) ([]bloom.Task, bloom.Cursor, error)) (rows []bloom.Task, next bloom.Cursor, err error) {
	if slices.Contains(openTasks, q.Status) && q.Text == "" {
		q.Limit = bloom.MaxPageSize
	}
	if q.Text != "" || q.Status != "" {
		return list(q)
	}
	seen := map[string]bool{}
	add := func(more []bloom.Task, most int, statuses []bloom.TaskStatus) {
		for _, t := range more {
			if len(rows) < most && !seen[t.ID] && slices.Contains(statuses, t.Status) {
				seen[t.ID] = true
				rows = append(rows, t)
			}
		}
	}
	ofStatuses := func(statuses []bloom.TaskStatus, limit int) (all []bloom.Task, err error) {
		q := q
		for _, q.Status = range statuses {
			q.Limit = limit
			more, _, err := list(q)
			if err != nil {
				return nil, err
			}
			all = append(all, more...)
		}
		newestFirst(all)
		return all, nil
	}
	open, err := ofStatuses(append(slices.Clip(openTasks), openTasks[0]), bloom.MaxPageSize) // the first again: a task may have been released meanwhile
	if err != nil {
		return nil, next, err
	}
	add(open, bloom.MaxPageSize, openTasks)
	enough := len(rows) + bloom.DefaultPageSize
	q.Limit = bloom.DefaultPageSize
	for page := 0; len(rows) < enough && page < walkPages; page++ {
		var more []bloom.Task
		if more, next, err = list(q); err != nil {
			return nil, next, err
		}
		add(more, len(rows)+len(more), endedTasks)
		if q.Cursor = next; next == (bloom.Cursor{}) {
			enough = 0
		}
	}
	if len(rows) < enough {
		q.Cursor = bloom.Cursor{}
		ended, err := ofStatuses(endedTasks, bloom.DefaultPageSize)
		if err != nil {
			return nil, next, err
		}
		add(ended, enough, endedTasks)
	}
	newestFirst(rows)
	return rows, next, nil
}

// newestFirst sorts tasks. Ids grow with time.
func newestFirst(tasks []bloom.Task) {
	slices.SortStableFunc(tasks, func(a, b bloom.Task) int {
		return cmp.Or(cmp.Compare(b.CreatedAt, a.CreatedAt), cmp.Compare(b.ID, a.ID))
	})
}

// leasesUnpaged lists leases for clients without paging: the newest, among them bloom.DefaultPageSize
// ended ones, and the other active ones, up to bloom.MaxPageSize.
func leasesUnpaged(q bloom.LeaseQuery, list func(bloom.LeaseQuery) ([]bloom.Lease, bloom.Cursor, error)) (rows []bloom.Lease, next bloom.Cursor, err error) {
	active := q
	active.Status, active.Limit = bloom.LeaseActive, bloom.MaxPageSize
	switch q.Status {
	case bloom.LeaseActive:
		return list(active)
	case "":
	default:
		return list(q)
	}
	rows, _, err = list(active)
	if err != nil {
		return nil, next, err
	}
	known := map[string]bool{}
	for _, l := range rows {
		known[l.ID] = true
	}
	for enough := len(rows) + bloom.DefaultPageSize; len(rows) < enough; {
		var more []bloom.Lease
		if more, next, err = list(q); err != nil {
			return nil, next, err
		}
		rows = append(rows, slices.DeleteFunc(more, func(l bloom.Lease) bool { return known[l.ID] })...)
		if q.Cursor = next; next == (bloom.Cursor{}) {
			break
		}
	}
	slices.SortStableFunc(rows, func(a, b bloom.Lease) int {
		return cmp.Or(cmp.Compare(b.StartedAt, a.StartedAt), cmp.Compare(b.ID, a.ID))
	})
	return rows, next, nil
}
