// Package search lists and searches tasks, artifacts and leases in pages of limited size, and finds
// the tasks of bulk operations.
package search

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/audit"
	"github.com/bloom-runtime/bloom/internal/content"
	"github.com/bloom-runtime/bloom/internal/fulltext"
	"github.com/bloom-runtime/bloom/internal/share"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

// Limits of a search.
const (
	searchText     = 4 << 10 // bytes of each text in the list
	snippetBatch   = 4       // tasks whose texts a search has in memory at once
	snippetsAtOnce = 4       // concurrent batches of all searches
	// snippetWait is how long a search waits for its turn and for outputs in the blob
	// store. Tasks that are not ready by then get no snippet.
	snippetWait = 2 * time.Second
)

// Limits of the part of a search that the database does: a search of frequent words reads much, and
// holds one of the few connections that read.
const (
	searchTime     = 5 * time.Second
	searchesOfAll  = 2
	searchesOfOne  = 1
	searchTurnWait = 10 * time.Second
)

var (
	errSearchTime = bloom.Invalid("The search takes too long; search for rarer words, or with more conditions",
		bloom.FieldError{Field: "q", Message: "must be found within 5 seconds"})
	errSearches = &bloom.Error{Kind: bloom.KindUnavailable, Code: bloom.CodeBusy,
		Message: "Other searches are running; try again shortly"}
)

// Store lists and searches. It is safe for concurrent use.
type Store struct {
	rows      contract.Store
	content   *content.Store
	pageBytes int
	searches  *share.Shares
	snippets  *semaphore.Weighted // limits concurrent batches of snippets
}

// New returns a Store whose pages have at most so many bytes; 0: DefaultPageBytes.
func New(rows contract.Store, content *content.Store, pageBytes int) *Store {
	return &Store{rows: rows, content: content, pageBytes: cmp.Or(pageBytes, DefaultPageBytes),
		searches: share.New(searchesOfAll, searchesOfOne), snippets: semaphore.NewWeighted(snippetsAtOnce)}
}

// search lists the tasks that contain a text.
func (s *Store) search(ctx context.Context, q bloom.TaskQuery) ([]bloom.Task, bloom.Cursor, error) {
	q.Page = searchPage(q.Page)
	tasks, next, err := s.searchOnce(ctx, q)
	if err == nil {
		err = s.addSnippets(ctx, q.Text, tasks)
	}
	return tasks, next, err
}

// searchOnce waits for the caller's turn and searches.
func (s *Store) searchOnce(ctx context.Context, q bloom.TaskQuery) ([]bloom.Task, bloom.Cursor, error) {
	wait, done := context.WithTimeout(ctx, searchTurnWait)
	defer done()
	slot, err := s.searches.Acquire(wait, audit.CallerOf(ctx).KeyID, 1)
	if err != nil {
		return nil, bloom.Cursor{}, errSearches
	}
	defer slot.Shrink(0)
	soon, done := context.WithTimeoutCause(ctx, searchTime, errSearchTime)
	defer done()
	tasks, next, err := s.tasks(soon, q)
	if err != nil && ctx.Err() == nil && soon.Err() != nil {
		err = context.Cause(soon)
	}
	return tasks, next, err
}

// searchPage makes a search's page small, because a search reads many more tasks than
// it lists.
func searchPage(p bloom.Page) bloom.Page {
	p.Limit = min(p.Size(), MaxSearchPage)
	p.TextBytes = min(cmp.Or(p.TextBytes, searchText), searchText)
	return p
}

// addSnippets sets the snippets of found tasks.
func (s *Store) addSnippets(ctx context.Context, text string, tasks []bloom.Task) error {
	q := fulltext.Parse(text)
	soon, done := context.WithTimeout(ctx, snippetWait)
	defer done()
	for batch := range slices.Chunk(tasks, snippetBatch) {
		if err := s.addBatch(soon, q, batch); err != nil {
			if soon.Err() != nil {
				return ctx.Err() // nil: the other tasks get no snippet
			}
			return err
		}
	}
	return nil
}

func (s *Store) addBatch(ctx context.Context, q fulltext.Query, batch []bloom.Task) error {
	if err := s.snippets.Acquire(ctx, 1); err != nil {
		return err
	}
	defer s.snippets.Release(1)
	ids := make([]string, len(batch))
	for i := range batch {
		ids[i] = batch[i].ID
	}
	texts, err := s.rows.TaskTexts(ctx, ids)
	if err != nil {
		return err
	}
	snippets := make(map[string]*bloom.Snippet, len(texts))
	for _, t := range s.readOutputs(ctx, texts) {
		snippets[t.ID] = snippetOf(q, t)
	}
	for i := range batch {
		batch[i].Snippet = snippets[batch[i].ID]
	}
	return nil
}

// readOutputs reads outputs from the blob store.
func (s *Store) readOutputs(ctx context.Context, texts []contract.TaskText) []contract.TaskText {
	var all sync.WaitGroup
	for i := range texts {
		t := &texts[i]
		if t.URL != "" {
			all.Go(func() { t.Output, _ = s.content.Read(ctx, t.URL, contract.MaxSearchText) })
		}
	}
	all.Wait()
	return texts
}

// snippetOf returns a snippet of the text that matches more of the query, of the
// prompt if both match equally, nil if neither matches.
func snippetOf(q fulltext.Query, t contract.TaskText) *bloom.Snippet {
	t.Cut()
	inPrompt, most := q.Snippet(t.Prompt)
	if inOutput, n := q.Snippet(t.Output); n > most {
		return &bloom.Snippet{In: "output", Parts: inOutput}
	}
	if most == 0 {
		return nil
	}
	return &bloom.Snippet{In: "prompt", Parts: inPrompt}
}
