package search

import (
	"cmp"
	"slices"

	"github.com/bloom-runtime/bloom"
)

var endedTasks = []bloom.TaskStatus{bloom.TaskCompleted, bloom.TaskFailed, bloom.TaskDead, bloom.TaskCancelled}

// walkPages limits how many pages are read in search of ended tasks, before those
// are queried by status.
const walkPages = 20

// knowsNoPages reports whether the client does not use paging: it sent neither a
// limit nor a cursor.
func knowsNoPages(p bloom.Page) bool { return p.Limit == 0 && p.Cursor == bloom.Cursor{} }

// unpagedBytes is the most that a list has for a client without paging, unless its first page has
// more.
const unpagedBytes = 16 << 20

// tasksUnpaged lists tasks for clients without paging: all open ones, up to bloom.MaxPageSize, and
// the newest ended ones, at least bloom.DefaultPageSize, as far as unpagedBytes reach. next continues
// where it stopped. It reads page after page, so a task that changes meanwhile may be in the state of
// any of them. First come the newest tasks of any status, then those beyond next that are missing.
func tasksUnpaged(q bloom.TaskQuery, list func(bloom.TaskQuery) ([]bloom.Task, bloom.Cursor, error)) (rows []bloom.Task, next bloom.Cursor, err error) {
	if slices.Contains(endedTasks, q.Status) {
		return list(q)
	}
	room, open, ended := unpagedBytes, 0, 0
	seen := map[string]bool{}
	add := func(more []bloom.Task) {
		for i := range more {
			t := &more[i]
			seen[t.ID] = true
			room -= taskSize(t)
			if t.Status.Terminal() {
				ended++
			} else {
				open++
			}
		}
		rows = append(rows, more...)
	}
	for page := 0; open < bloom.MaxPageSize && ended < bloom.DefaultPageSize && page < walkPages; page++ {
		q.Limit = min(bloom.DefaultPageSize, bloom.MaxPageSize-open)
		more, after, err := list(q)
		if err != nil {
			return nil, next, err
		}
		if len(rows) > 0 && len(firstFitting(more, room)) < len(more) {
			return rows, next, nil
		}
		add(more)
		if q.Cursor, next = after, after; next == (bloom.Cursor{}) {
			return rows, next, nil
		}
	}
	if q.Status != "" {
		return rows, next, nil
	}
	older := func(most int, statuses ...bloom.TaskStatus) error {
		var found []bloom.Task
		for _, q.Status = range statuses {
			q.Cursor, q.Limit = next, min(most, bloom.DefaultPageSize)
			for read := 0; read < most; read += q.Limit {
				more, after, err := list(q)
				if err != nil {
					return err
				}
				for _, t := range more {
					if !seen[t.ID] {
						seen[t.ID] = true
						found = append(found, t)
					}
				}
				newestFirst(found)
				found = firstFitting(found[:min(most, len(found))], room)
				if q.Cursor = after; after == (bloom.Cursor{}) {
					break
				}
			}
		}
		add(found)
		return nil
	}
	// The few that are leased twice: a task may have left the queue meanwhile.
	err = older(bloom.MaxPageSize-open, bloom.TaskLeased, bloom.TaskRunning, bloom.TaskQueued, bloom.TaskLeased, bloom.TaskRunning)
	if err == nil {
		err = older(bloom.DefaultPageSize-ended, endedTasks...)
	}
	newestFirst(rows)
	return rows, next, err
}

// firstFitting returns the first tasks that fit into so many bytes.
func firstFitting(tasks []bloom.Task, room int) []bloom.Task {
	for i := range tasks {
		if room -= taskSize(&tasks[i]); room < 0 {
			return tasks[:i]
		}
	}
	return tasks
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
