package dispatch

import (
	"cmp"
	"context"
	"math"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/input"
)

// DefaultPageBytes bounds what one page of a list holds in memory, in bytes.
const DefaultPageBytes = 4 << 20

// leastText is the shortest to which a page cuts long texts by itself: what fits
// into it is always shown whole.
const leastText = 1 << 10

// Tasks lists tasks, newest first. Texts longer than q.TextBytes are cut; with 0 only
// as much as the page's bound asks for. When even then the rows do not fit into the
// bound, the page is shorter than asked for and next goes on after it. A search lists at
// most bloom.MaxSearchPage tasks, with the beginnings of their texts.
func (s *Service) Tasks(ctx context.Context, q bloom.TaskQuery) (tasks []bloom.Task, next bloom.Cursor, err error) {
	input.Normalize(&q)
	if q.Text != "" {
		q.Page = searchPage(q.Page)
	}
	tasks, next, err = s.tasks(ctx, q)
	if err == nil && q.Text != "" {
		err = s.addSnippets(ctx, q.Text, tasks)
	}
	return tasks, next, err
}

func (s *Service) tasks(ctx context.Context, q bloom.TaskQuery) (tasks []bloom.Task, next bloom.Cursor, err error) {
	return bounded(q.Page, s.pageBytes, kind[bloom.Task]{
		list: func(p bloom.Page) ([]bloom.Task, bloom.Cursor, error) {
			q.Page = p
			list := func(q bloom.TaskQuery) ([]bloom.Task, bloom.Cursor, error) { return s.store.Tasks(ctx, q) }
			if knowsNoPages(p) {
				return tasksUnpaged(q, list)
			}
			return list(q)
		},
		size: taskSize,
		cut:  func(t *bloom.Task) bool { return t.PromptTruncated || t.HintsTruncated },
		whole: func(t *bloom.Task) (bloom.Task, error) {
			full, err := s.store.Task(ctx, t.ID)
			full.TaskState = t.TaskState // as the list found it
			return full, err
		},
	})
}

// Artifacts lists artifacts, newest first, bounded as Tasks is.
func (s *Service) Artifacts(ctx context.Context, q bloom.ArtifactQuery) (artifacts []bloom.Artifact, next bloom.Cursor, err error) {
	input.Normalize(&q)
	return bounded(q.Page, s.pageBytes, kind[bloom.Artifact]{
		list: func(p bloom.Page) ([]bloom.Artifact, bloom.Cursor, error) {
			q.Page = p
			return s.store.Artifacts(ctx, q)
		},
		size:  artifactSize,
		cut:   func(a *bloom.Artifact) bool { return a.ContentTruncated },
		whole: func(a *bloom.Artifact) (bloom.Artifact, error) { return s.store.Artifact(ctx, a.ID) },
	})
}

// kind is what bounded has to know of a kind of row.
type kind[T any] struct {
	list  func(bloom.Page) ([]T, bloom.Cursor, error)
	size  func(*T) int
	cut   func(*T) bool
	whole func(*T) (T, error)
}

// bounded reads one page that holds no more than most bytes. It first reads each text up
// to an even share of them, then, from the newest row on, reads texts that were cut
// whole while they fit.
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
	if share = max(leastText, most/max(1, len(rows))); fit < len(rows) && p.TextBytes > share {
		p.TextBytes = share // more rows than asked for
		if rows, next, err = k.list(p); err != nil {
			return nil, next, err
		}
		fit, size = k.fit(rows, most)
	}
	if fit < len(rows) {
		if knowsNoPages(p) {
			return rows, next, nil // who knows no paging must see all of it
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
			continue // removed since the list was read
		}
		if err != nil {
			return nil, next, err
		}
		more := k.size(&full) - k.size(&rows[i])
		if size+more > most {
			break // what does not fit is read once and no more of them
		}
		rows[i], size = full, size+more
	}
	return rows, next, nil
}

// fit is how many rows fit into most bytes, one at least, and how many bytes all of
// them take.
func (k kind[T]) fit(rows []T, most int) (fit, size int) {
	for i := range rows {
		if size += k.size(&rows[i]); size <= most || i == 0 {
			fit = i + 1
		}
	}
	return fit, size
}

// rowBytes is about what the short fields of a row take.
const rowBytes = 512

func taskSize(t *bloom.Task) int {
	n := rowBytes + len(t.Prompt) + len(t.ContextID) + len(t.AgentSlug)
	for _, texts := range [][]string{t.ContextHints, t.Labels} {
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

// Results lists a task's results, newest first, with their output wherever it lies.
// The newest has all of it; of the others as many as fit into the bound of a page,
// the rest is cut and marked.
func (s *Service) Results(ctx context.Context, taskID string) ([]bloom.Result, error) {
	if _, err := s.Task(ctx, taskID); err != nil {
		return nil, err
	}
	results, err := s.store.Results(ctx, taskID)
	if err != nil {
		return nil, err
	}
	left := math.MaxInt
	for i := range results {
		if err := s.fillOutput(ctx, &results[i], left); err != nil {
			return nil, err
		}
		if i == 0 {
			left = s.pageBytes
		}
		if out := results[i].Output; out != nil {
			left -= len(*out)
		}
	}
	return results, nil
}

// fillOutput completes a result with its output, or with its beginning when it is
// longer than most bytes.
func (s *Service) fillOutput(ctx context.Context, r *bloom.Result, most int) error {
	most = max(most, leastText)
	if r.Output == nil {
		out, cut, err := s.placedOutput(ctx, r.ArtifactID, most)
		r.Output, r.OutputTruncated = out, cut
		return err
	}
	r.CutOutput(most)
	return nil
}
