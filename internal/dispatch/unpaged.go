package dispatch

import (
	"cmp"
	"slices"

	"github.com/bloom-runtime/bloom"
)

// unpaged reads a list for clients that know no pages: all that is open, up to
// bloom.MaxPageSize, and the newest of the rest, at least bloom.DefaultPageSize, the
// newest first. It asks a store several times, so that an entry which changes
// meanwhile is as one of the readings found it.
type unpaged[T any, S ~string] struct {
	list   func(status S, p bloom.Page) ([]T, bloom.Cursor, error)
	open   []S // each is asked for in turn; an entry moves from the first to the last, and seldom back
	ended  []S
	status func(*T) S
	id     func(*T) string
	at     func(*T) int64 // when it began, Unix milliseconds
}

// walkPages bounds how far the list is read for what has ended, before that is asked
// for by status.
const walkPages = 20

// read answers like a page's list. next goes on where the walk stopped.
func (u unpaged[T, S]) read(p bloom.Page) (rows []T, next bloom.Cursor, err error) {
	seen := map[string]bool{}
	add := func(more []T, most int, wanted []S) {
		for i := range more {
			if id := u.id(&more[i]); len(rows) < most && !seen[id] && slices.Contains(wanted, u.status(&more[i])) {
				seen[id] = true
				rows = append(rows, more[i])
			}
		}
	}
	p.Limit = bloom.MaxPageSize
	open := []T{}
	for _, status := range append(slices.Clip(u.open), u.open[0]) { // released meanwhile: back at the first
		more, _, err := u.list(status, p)
		if err != nil {
			return nil, next, err
		}
		open = append(open, more...)
	}
	u.sort(open)
	add(open, bloom.MaxPageSize, u.open)
	enough := len(rows) + bloom.DefaultPageSize
	p.Limit = bloom.DefaultPageSize
	for range walkPages {
		more, after, err := u.list("", p)
		if err != nil {
			return nil, next, err
		}
		add(more, len(rows)+len(more), u.ended)
		if next = after; len(rows) >= enough || next == (bloom.Cursor{}) {
			u.sort(rows)
			return rows, next, nil
		}
		p.Cursor = next
	}
	p.Cursor = bloom.Cursor{}
	ended := []T{}
	for _, status := range u.ended {
		more, _, err := u.list(status, p)
		if err != nil {
			return nil, next, err
		}
		ended = append(ended, more...)
	}
	u.sort(ended)
	add(ended, enough, u.ended)
	u.sort(rows)
	return rows, next, nil
}

// sort puts the newest first. Ids grow with time.
func (u unpaged[T, S]) sort(rows []T) {
	slices.SortStableFunc(rows, func(a, b T) int {
		return cmp.Or(cmp.Compare(u.at(&b), u.at(&a)), cmp.Compare(u.id(&b), u.id(&a)))
	})
}

// knowsNoPages reports whether a list was asked for without a limit and a cursor.
func knowsNoPages(p bloom.Page) bool { return p.Limit == 0 && p.Cursor == bloom.Cursor{} }

// oneStatus is the page of a list by status that was asked for without pages.
func oneStatus[S ~string](p bloom.Page, status S, open []S) bloom.Page {
	if slices.Contains(open, status) {
		p.Limit = bloom.MaxPageSize
	}
	return p
}

var (
	openTasks   = []bloom.TaskStatus{bloom.TaskQueued, bloom.TaskLeased, bloom.TaskRunning}
	endedTasks  = []bloom.TaskStatus{bloom.TaskCompleted, bloom.TaskFailed, bloom.TaskDead, bloom.TaskCancelled}
	openLeases  = []bloom.LeaseStatus{bloom.LeaseActive}
	endedLeases = []bloom.LeaseStatus{bloom.LeaseExpired, bloom.LeaseReleased, bloom.LeaseFailed}
)

// tasksUnpaged lists tasks for clients that know no pages. A search for text is paged
// all the same: each page of it may read much.
func tasksUnpaged(q bloom.TaskQuery, list func(bloom.TaskQuery) ([]bloom.Task, bloom.Cursor, error)) ([]bloom.Task, bloom.Cursor, error) {
	switch {
	case q.Text != "":
		return list(q)
	case q.Status != "":
		q.Page = oneStatus(q.Page, q.Status, openTasks)
		return list(q)
	}
	return unpaged[bloom.Task, bloom.TaskStatus]{
		open: openTasks, ended: endedTasks,
		list: func(status bloom.TaskStatus, p bloom.Page) ([]bloom.Task, bloom.Cursor, error) {
			q.Status, q.Page = status, p
			return list(q)
		},
		status: func(t *bloom.Task) bloom.TaskStatus { return t.Status },
		id:     func(t *bloom.Task) string { return t.ID },
		at:     func(t *bloom.Task) int64 { return t.CreatedAt },
	}.read(q.Page)
}

// leasesUnpaged is the same for leases.
func leasesUnpaged(q bloom.LeaseQuery, list func(bloom.LeaseQuery) ([]bloom.Lease, bloom.Cursor, error)) ([]bloom.Lease, bloom.Cursor, error) {
	if q.Status != "" {
		q.Page = oneStatus(q.Page, q.Status, openLeases)
		return list(q)
	}
	return unpaged[bloom.Lease, bloom.LeaseStatus]{
		open: openLeases, ended: endedLeases,
		list: func(status bloom.LeaseStatus, p bloom.Page) ([]bloom.Lease, bloom.Cursor, error) {
			q.Status, q.Page = status, p
			return list(q)
		},
		status: func(l *bloom.Lease) bloom.LeaseStatus { return l.Status },
		id:     func(l *bloom.Lease) string { return l.ID },
		at:     func(l *bloom.Lease) int64 { return l.StartedAt },
	}.read(q.Page)
}
