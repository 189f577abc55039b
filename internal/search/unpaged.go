package search

import (
	"cmp"
	"slices"

	"github.com/bloom-runtime/bloom"
)

// unpaged reads a list for clients without paging: all open entries, up to
// bloom.MaxPageSize, and the newest ended ones, at least bloom.DefaultPageSize. It
// makes several queries, so an entry that changes meanwhile may be in the state of
// any of them.
type unpaged[T any, S ~string] struct {
	list   func(status S, p bloom.Page) ([]T, bloom.Cursor, error)
	open   []S // queried in this order, in which entries usually change
	ended  []S
	status func(*T) S
	id     func(*T) string
	at     func(*T) int64 // when it was created or started, Unix milliseconds
}

// walkPages limits how many pages are read in search of ended entries, before those
// are queried by status.
const walkPages = 20

// read returns the list. next continues where it stopped.
func (u unpaged[T, S]) read(p bloom.Page) (rows []T, next bloom.Cursor, err error) {
	seen := map[string]bool{}
	add := func(more []T, most int, statuses []S) {
		for i := range more {
			if id := u.id(&more[i]); len(rows) < most && !seen[id] && slices.Contains(statuses, u.status(&more[i])) {
				seen[id] = true
				rows = append(rows, more[i])
			}
		}
	}
	p.Limit = bloom.MaxPageSize
	open := []T{}
	for _, status := range append(slices.Clip(u.open), u.open[0]) { // the first again: an entry may have been released meanwhile
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

// sort sorts rows, the newest first. Ids grow with time.
func (u unpaged[T, S]) sort(rows []T) {
	slices.SortStableFunc(rows, func(a, b T) int {
		return cmp.Or(cmp.Compare(u.at(&b), u.at(&a)), cmp.Compare(u.id(&b), u.id(&a)))
	})
}

// knowsNoPages reports whether the client does not use paging: it sent neither a
// limit nor a cursor.
func knowsNoPages(p bloom.Page) bool { return p.Limit == 0 && p.Cursor == bloom.Cursor{} }

// oneStatus returns the page of an unpaged list of one status.
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

// tasksUnpaged lists tasks for clients without paging. A text search is paged anyway,
// because each page of it may read many rows.
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

// leasesUnpaged lists leases for clients without paging.
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
