package search

import (
	"cmp"
	"context"
	"io"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/input"
)

// DefaultPageBytes is the default limit of one list page in memory, in bytes.
const DefaultPageBytes = 4 << 20

// leastText is the shortest length to which a page truncates texts on its own.
const leastText = 1 << 10

// Tasks lists tasks, newest first. Texts longer than q.TextBytes are truncated; with
// 0, only as far as the page's byte limit requires. If the rows still exceed the
// limit, the page is shorter than requested and next continues after it. A search
// lists at most MaxSearchPage tasks, with truncated texts.
func (s *Store) Tasks(ctx context.Context, q bloom.TaskQuery) (tasks []bloom.Task, next bloom.Cursor, err error) {
	input.Normalize(&q)
	switch {
	case q.Text != "":
		return s.search(ctx, q)
	case len(q.Labels) > 0 || q.Error != "" || q.ShortID != "": // no index answers these
		return s.searchOnce(ctx, q)
	}
	return s.tasks(ctx, q)
}

func (s *Store) tasks(ctx context.Context, q bloom.TaskQuery) (tasks []bloom.Task, next bloom.Cursor, err error) {
	return bounded(q.Page, s.pageBytes, kind[bloom.Task]{
		list: func(p bloom.Page) ([]bloom.Task, bloom.Cursor, error) {
			q.Page = p
			list := func(q bloom.TaskQuery) ([]bloom.Task, bloom.Cursor, error) { return s.rows.Tasks(ctx, q) }
			if knowsNoPages(p) {
				return tasksUnpaged(q, list)
			}
			return list(q)
		},
		size: taskSize,
		cut:  func(t *bloom.Task) bool { return t.PromptTruncated || t.HintsTruncated },
		whole: func(t *bloom.Task) (bloom.Task, error) {
			full, err := s.rows.Task(ctx, t.ID)
			full.TaskState = t.TaskState // consistent with the rest of the list
			return full, err
		},
	})
}

// Artifacts lists artifacts, newest first, with the same limits as Tasks.
func (s *Store) Artifacts(ctx context.Context, q bloom.ArtifactQuery) (artifacts []bloom.Artifact, next bloom.Cursor, err error) {
	input.Normalize(&q)
	return bounded(q.Page, s.pageBytes, kind[bloom.Artifact]{
		list: func(p bloom.Page) ([]bloom.Artifact, bloom.Cursor, error) {
			q.Page = p
			return s.rows.Artifacts(ctx, q)
		},
		size: artifactSize,
		cut:  func(a *bloom.Artifact) bool { return a.ContentTruncated },
		whole: func(a *bloom.Artifact) (bloom.Artifact, error) {
			full, err := s.rows.Artifact(ctx, a.ID)
			full.ContextID, full.Prompt = a.ContextID, a.Prompt
			return full, err
		},
	})
}

// auditBatch is how many entries of the audit are in memory before their size is known.
const auditBatch = 100

// Audit lists audit entries, newest first. A page ends early when it has as many bytes as it may.
func (s *Store) Audit(ctx context.Context, q bloom.AuditQuery) (list []bloom.Audit, next bloom.Cursor, err error) {
	size := 0
	for want := q.Page.Size(); want > len(list) && size < s.pageBytes; {
		q.Page.Limit = min(auditBatch, want-len(list))
		var some []bloom.Audit
		if some, next, err = s.rows.Audit(ctx, q); err != nil {
			return nil, next, err
		}
		for i := range some {
			size += rowBytes + len(some[i].Detail) + len(some[i].Data)
		}
		list = append(list, some...)
		if q.Page.Cursor = next; next == (bloom.Cursor{}) {
			break
		}
	}
	return list, next, nil
}

// Leases lists leases, newest first.
func (s *Store) Leases(ctx context.Context, q bloom.LeaseQuery) ([]bloom.Lease, bloom.Cursor, error) {
	input.Normalize(&q)
	list := func(q bloom.LeaseQuery) ([]bloom.Lease, bloom.Cursor, error) { return s.rows.Leases(ctx, q) }
	if knowsNoPages(q.Page) {
		return leasesUnpaged(q, list)
	}
	return list(q)
}

// kind is what bounded needs to know about a type of rows.
type kind[T any] struct {
	list  func(bloom.Page) ([]T, bloom.Cursor, error)
	size  func(*T) int
	cut   func(*T) bool
	whole func(*T) (T, error)
}

// bounded reads one page, at most "most" bytes long. It first reads each text up to an
// even share of them. Then, from the newest row on, it reads truncated texts in full
// while they fit.
func bounded[T any](p bloom.Page, most int, k kind[T]) (rows []T, next bloom.Cursor, err error) {
	preview := p.TextBytes > 0
	share := max(leastText, most/p.Size())
	if knowsNoPages(p) {
		share = max(leastText, most/bloom.MaxPageSize)
	}
	if p.TextBytes = cmp.Or(p.TextBytes, share); p.TextBytes > share {
		p.TextBytes = share
	}
	if rows, next, err = k.list(p); err != nil {
		return nil, next, err
	}
	fit, size := k.fit(rows, most)
	if fit < len(rows) {
		if knowsNoPages(p) {
			return rows, next, nil // the list has its own limit
		}
		p.Limit = fit
		return k.list(p)
	}
	for i := 0; i < len(rows) && !preview; i++ {
		if !k.cut(&rows[i]) {
			continue
		}
		full, err := k.whole(&rows[i])
		if bloom.KindOf(err) == bloom.KindNotFound {
			continue // removed in the meantime
		}
		if err != nil {
			return nil, next, err
		}
		more := k.size(&full) - k.size(&rows[i])
		if size+more > most {
			break // stop after the first that does not fit
		}
		rows[i], size = full, size+more
	}
	return rows, next, nil
}

// fit returns how many rows fit into most bytes, at least one, and the size of all
// rows.
func (k kind[T]) fit(rows []T, most int) (fit, size int) {
	for i := range rows {
		if size += k.size(&rows[i]); size <= most || i == 0 {
			fit = i + 1
		}
	}
	return fit, size
}

// rowBytes is roughly the size of a row's short fields.
const rowBytes = 512

func taskSize(t *bloom.Task) int {
	n := rowBytes + len(t.Prompt) + len(t.ContextID) + len(t.AgentSlug)
	for _, text := range []*string{t.IdempotencyKey, t.RequestID, t.WorkerID, t.ErrorClass} {
		if text != nil {
			n += len(*text)
		}
	}
	for _, texts := range [][]string{t.ContextHints, t.Labels, t.Policy.Artifacts} {
		for _, s := range texts {
			n += len(s) + 16
		}
	}
	return n
}

func artifactSize(a *bloom.Artifact) int {
	n := rowBytes
	if a.Content != nil {
		n += len(*a.Content)
	}
	for _, tag := range a.Tags {
		n += len(tag) + 16
	}
	return n
}

// Results lists a task's results, newest first, with their output, truncated beyond the
// byte limit of a page. If the newest output is truncated, newest is all of it, which
// the caller closes.
func (s *Store) Results(ctx context.Context, taskID string) (results []bloom.Result, newest io.ReadCloser, err error) {
	if results, err = s.content.Results(ctx, taskID, s.pageBytes); err != nil || len(results) == 0 || !results[0].OutputTruncated {
		return results, nil, err
	}
	a, err := s.rows.Artifact(ctx, results[0].ArtifactID)
	if err != nil {
		return nil, nil, err
	}
	newest, err = s.content.Open(ctx, a)
	return results, newest, err
}
