package store

import (
	"cmp"
	"context"
	"slices"

	"github.com/bloom-runtime/bloom"
)

// A context's row is kept by differences, which transactions add to it when they
// commit, so that tasks of one context need not wait for each other. Tasks that are
// older than the table of contexts are taken in afterwards, batch by batch and the
// newest first: until then they count for nothing (context_fill.below).

// ContextChange is by how much a transaction changes a context. A context that is not
// there yet begins with it.
type ContextChange struct {
	ID         string
	Seq        int64 // the number of its newest task; it only grows
	CreatedAt  int64 // of its oldest task
	LastUsedAt int64 // it only grows
	UpdatedAt  int64 // it only grows
	Tasks      int64
	Unfinished int64
	Tokens     int64
	CostNano   int64   // billionths of a US dollar
	WorkerID   *string // nil: it stays; of an older task it is only taken where there is none
}

// Spent is what the attempts of a task have used.
type Spent struct {
	Tokens   int64
	CostNano int64 // billionths of a US dollar
}

// ContextsInOrder are the changed contexts by id: transactions that change the same
// ones meet in one order.
func (c *Changes) ContextsInOrder() []*ContextChange {
	all := make([]*ContextChange, 0, len(c.Contexts))
	for _, x := range c.Contexts {
		all = append(all, x)
	}
	slices.SortFunc(all, func(a, b *ContextChange) int { return cmp.Compare(a.ID, b.ID) })
	return all
}

// contextOf is where to add what changes in a task's context.
func (u *Unit) contextOf(t *Task) *ContextChange {
	x := u.c.Contexts[t.ContextID]
	if x == nil {
		x = &ContextChange{ID: t.ContextID, Seq: t.Seq, CreatedAt: t.CreatedAt, LastUsedAt: t.CreatedAt}
		if u.c.Contexts == nil {
			u.c.Contexts = map[string]*ContextChange{}
		}
		u.c.Contexts[t.ContextID] = x
	}
	x.Seq, x.CreatedAt, x.LastUsedAt = max(x.Seq, t.Seq), min(x.CreatedAt, t.CreatedAt), max(x.LastUsedAt, t.CreatedAt)
	x.UpdatedAt = max(x.UpdatedAt, t.UpdatedAt)
	return x
}

// counted reports whether a task is in its context already.
func (u *Unit) counted(t *Task) (bool, error) {
	switch {
	case t.fresh || u.s.filled.Load():
		return true, nil
	case u.rows.Filled == nil:
		u.need.Filled = true
		return false, errNeed
	}
	return t.Seq >= *u.rows.Filled, nil
}

func (u *Unit) newInContext(t *Task) {
	x := u.contextOf(t)
	x.Tasks++
	x.Unfinished++
}

// keepContext notes what a transition of a task changes in its context.
func (u *Unit) keepContext(t *Task, before bloom.TaskState, leased bool) error {
	ended, again := !before.Status.Terminal() && t.Status.Terminal(), before.Status.Terminal() && !t.Status.Terminal()
	if !ended && !again && !leased {
		return nil
	}
	if counted, err := u.counted(t); err != nil || !counted {
		return err
	}
	x := u.contextOf(t)
	switch {
	case ended:
		x.Unfinished--
	case again:
		x.Unfinished++
	}
	if leased {
		x.WorkerID = t.WorkerID
	}
	return nil
}

// spend notes what an attempt used.
func (u *Unit) spend(t *Task, m bloom.Metrics) error {
	if m.Tokens() == 0 && m.CostNano() == 0 {
		return nil
	}
	if counted, err := u.counted(t); err != nil || !counted {
		return err
	}
	x := u.contextOf(t)
	x.Tokens += m.Tokens()
	x.CostNano += m.CostNano()
	return nil
}

// fillBatch is how many tasks are taken into their contexts at once. They are locked
// for as long as that takes.
const fillBatch = 200

// lookFilled finds out whether all tasks are in their contexts. When it cannot, those
// who need to know ask within their transactions.
func (s *Store) lookFilled() {
	ctx, cancel := context.WithTimeout(s.life, s.cfg.Patience)
	defer cancel()
	if below, _, err := s.db.Unfilled(ctx, 1); err == nil && below == 0 {
		s.filled.Store(true)
	}
}

// FillContexts takes a batch of older tasks into their contexts.
func (s *Store) FillContexts(ctx context.Context) (more bool, err error) {
	if s.filled.Load() {
		return false, nil
	}
	below, ids, err := s.db.Unfilled(ctx, fillBatch)
	if err != nil {
		return false, s.fail(err)
	}
	if below == 0 {
		s.filled.Store(true)
		return false, nil
	}
	want := func(r *ReadSet) {
		r.Tasks.Add(ids...)
		r.Spent.Add(ids...)
		r.Filled = true
	}
	return apart(ctx, s, want, func(u *Unit) (bool, error) {
		if *u.rows.Filled != below {
			return true, nil // another server has taken them in
		}
		from := below
		for _, id := range ids {
			t, err := u.task(id)
			if isNotFound(err) {
				continue // removed since
			}
			if err != nil {
				return false, err
			}
			from = min(from, t.Seq)
			u.takeIn(t)
		}
		if len(ids) < fillBatch {
			from = 0
		}
		u.c.Filled, u.dirt = &from, true
		return from > 0, nil
	})
}

// takeIn adds an older task to its context.
func (u *Unit) takeIn(t *Task) {
	x := u.contextOf(t)
	x.Tasks++
	if !t.Status.Terminal() {
		x.Unfinished++
	}
	spent := u.rows.Spent[t.ID]
	x.Tokens += spent.Tokens
	x.CostNano += spent.CostNano
	if x.WorkerID == nil {
		x.WorkerID = t.WorkerID
	}
}

// converse keeps what a turn has made of the context's transcript and working folder.
// What does not go on from what is kept is dropped: another task of the context has
// ended meanwhile. So is what comes so late that its uploads may have been swept; those
// that have not are.
func (u *Unit) converse(t *Task, r bloom.CompleteRequest) error {
	c := r.Completion
	if c.Transcript == nil && c.Workspace == nil {
		return nil
	}
	if r.Late {
		u.refuseLate(t, c)
		return nil
	}
	was, err := u.transcript(t.ContextID)
	if err != nil {
		return err
	}
	kept := was
	if c.Transcript != nil {
		if now, ok := c.Transcript.Applied(kept); ok {
			kept = &now
		} else {
			u.refuse(t, bloom.EventTranscript, "this turn is not part of the context's conversation: another task of it ended meanwhile", c.Transcript.Parts)
		}
	}
	if c.Workspace != nil {
		if now, ok := c.Workspace.WithWorkspace(kept); ok {
			kept = &now
		} else {
			u.refuse(t, bloom.EventWorkspace, "what this task made of the context's working folder is not kept: another task of the context ended meanwhile", c.Workspace.Parts)
		}
	}
	if kept != was {
		u.c.Removal.URLs = append(u.c.Removal.URLs, kept.Dropped(was)...)
		u.setTranscript(t.ContextID, kept)
	}
	return nil
}

// refuseLate says in the task's stream that its context is as it was before.
func (u *Unit) refuseLate(t *Task, c bloom.Completion) {
	if c.Transcript != nil {
		u.refuse(t, bloom.EventTranscript, "this turn is not part of the context's conversation: its completion came too late", nil)
	}
	if c.Workspace != nil {
		u.refuse(t, bloom.EventWorkspace, "what this task made of the context's working folder is not kept: its completion came too late", nil)
	}
}

// refuse drops what was uploaded for a completion, and says why in the task's stream.
func (u *Unit) refuse(t *Task, event, message string, parts []bloom.TranscriptPart) {
	for _, p := range parts {
		u.c.Removal.URLs = append(u.c.Removal.URLs, p.URL)
	}
	u.event(t, Event{Type: event, At: u.Now, Epoch: t.Epoch, Data: bloom.MustJSON(map[string]string{"message": message})})
}

// transcript is a context's transcript under its lock, nil when there is none.
func (u *Unit) transcript(contextID string) (*bloom.Transcript, error) {
	if t, ok := u.c.Scripts[contextID]; ok {
		return t, nil
	}
	t, ok := u.rows.Scripts[contextID]
	if !ok {
		return nil, u.lacks(ScriptKey(contextID), func() { u.need.Scripts.Add(contextID) })
	}
	return t, nil
}

// ScriptKey is the name in Rows.Busy of a context's transcript, and ContextKey that of
// the context.
func ScriptKey(contextID string) string { return "transcript:" + contextID }

// ContextKey is the name of a context in Rows.Busy.
func ContextKey(contextID string) string { return "context:" + contextID }

func (u *Unit) setTranscript(contextID string, t *bloom.Transcript) {
	u.dirt = true
	if u.c.Scripts == nil {
		u.c.Scripts = map[string]*bloom.Transcript{}
	}
	u.c.Scripts[contextID] = t
}

// MovePart records where a part of a context's transcript or working folder lies now.
func (s *Store) MovePart(ctx context.Context, contextID, from, to string) error {
	_, err := apart(ctx, s, func(r *ReadSet) { r.Scripts.Add(contextID) }, func(u *Unit) (struct{}, error) {
		was, err := u.transcript(contextID)
		if err != nil {
			return struct{}{}, err
		}
		if was != nil {
			if now, ok := was.Moved(from, to); ok {
				u.setTranscript(contextID, &now)
				return struct{}{}, nil
			}
		}
		return struct{}{}, bloom.Conflict("The context's content was moved or replaced in the meantime")
	})
	return err
}

// ForgetContext drops a context and its transcript.
func (s *Store) ForgetContext(ctx context.Context, id, actor string) error {
	if id != bloom.CleanText(id) {
		return bloom.ErrContextNotFound
	}
	if !s.filled.Load() {
		if more, err := s.FillContexts(ctx); err != nil || more {
			return cmp.Or(err, error(bloom.Conflict("Contexts of older tasks are still being taken in; try again in a moment")))
		}
	}
	want := func(r *ReadSet) {
		r.Contexts.Add(id)
		r.Scripts.Add(id)
	}
	_, err := apart(ctx, s, want, func(u *Unit) (struct{}, error) {
		x, ok := u.rows.Contexts[id]
		switch {
		case !ok:
			return struct{}{}, u.lacks(ContextKey(id), func() { u.need.Contexts.Add(id) })
		case x == nil:
			return struct{}{}, bloom.ErrContextNotFound
		case x.Unfinished > 0:
			return struct{}{}, bloom.Conflict("The context has %d tasks that have not ended; cancel them first", x.Unfinished)
		}
		_, err := u.forget(id, actor)
		return struct{}{}, err
	})
	return err
}

// forget drops a context and its transcript, and returns how many contents are to be
// deleted with it.
func (u *Unit) forget(id, actor string) (contents int, err error) {
	was, err := u.transcript(id)
	if err != nil {
		return 0, err
	}
	urls := bloom.Transcript{}.Dropped(was)
	u.c.Removal.URLs = append(u.c.Removal.URLs, urls...)
	u.setTranscript(id, nil)
	u.c.Forgotten = append(u.c.Forgotten, id)
	u.audit(bloom.ActionContextForgotten, bloom.EntityContext, id, actor, "Forgotten with its transcript", nil)
	return len(urls), nil
}
