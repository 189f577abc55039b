package worker

import (
	"context"
	"encoding/json"
	"os"
	"sync"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/storable"
)

// forgetter deletes this machine's data of forgotten contexts, beside the polls.
type forgetter struct {
	w    *Worker
	ctx  context.Context //nolint:containedctx // of the background deletions
	end  context.CancelFunc
	rest sync.WaitGroup
	more bool // the last answer named some, so there may be more
	anew bool // the server's list has begun anew and goes on
}

func newForgetter(ctx context.Context, w *Worker) *forgetter {
	f := &forgetter{w: w}
	f.ctx, f.end = context.WithCancel(ctx)
	return f
}

// begin forgets contexts. Tasks that start after it returns do not see their data. With all, the
// server's list begins anew: until its end, contexts that are used again keep their data.
func (f *forgetter) begin(contexts []bloom.ForgottenContext, all bool) {
	f.more = len(contexts) > 0
	f.anew = all || f.anew && f.more
	if all {
		f.w.log.Info("the server's list of forgotten contexts begins anew: it has another database, or an older one")
	}
	// Before the first deletion has ended, so that no progress is noted beyond one that has not.
	entries := f.w.state.forgotten.begin(contexts, all)
	for i, x := range contexts {
		if f.anew && x.Used {
			f.done(entries[i])
			continue
		}
		finish := f.w.cfg.Forget(x.ID)
		f.rest.Go(func() {
			if f.finish(x, finish) {
				f.done(entries[i])
			}
		})
	}
}

// finish deletes a context's data. It returns false if it was interrupted: then the server names
// the context again after the next start.
func (f *forgetter) finish(x bloom.ForgottenContext, finish func(context.Context) error) bool {
	err := finish(f.ctx)
	if err != nil && f.ctx.Err() != nil {
		return false
	}
	if err != nil {
		f.w.log.Error("the data of a forgotten context could not be deleted completely", "context_id", x.ID, "error", err)
	}
	return true
}

func (f *forgetter) done(e *forgottenEntry) {
	if err := f.w.state.forgotten.finish(e); err != nil {
		f.w.log.Error("the progress of forgetting contexts could not be written", "error", err)
	}
}

// stop cancels the deletions and waits until they have ended.
func (f *forgetter) stop() {
	f.end()
	f.rest.Wait()
}

// mark names a forgotten context by the number and the id that the server's database has for it.
type mark struct {
	Seq int64  `json:"seq"`
	ID  string `json:"id"`
}

// forgottenEntry is a forgotten context that the server has named.
type forgottenEntry struct {
	mark

	done bool
}

// progress records which forgotten contexts this machine has dealt with. It is safe for
// concurrent use.
type progress struct {
	path string

	mu   sync.Mutex
	last mark              // the last one that the server named
	open []*forgottenEntry // from the first that is not done, in the server's order
}

// openProgress reads the progress of an earlier process. With an unreadable file it
// starts at 0, because forgetting twice does no harm.
func openProgress(path string) *progress {
	raw, _ := os.ReadFile(path)
	p := &progress{path: path}
	_ = json.Unmarshal(raw, &p.last)
	p.last.Seq = max(0, p.last.Seq)
	return p
}

// named returns the last forgotten context that the server named.
func (p *progress) named() mark {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last
}

// begin adds what the server named; with anew, it replaces what an earlier database named.
func (p *progress) begin(contexts []bloom.ForgottenContext, anew bool) (entries []*forgottenEntry) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if anew {
		p.open = nil
	}
	for _, x := range contexts {
		e := &forgottenEntry{mark: mark{x.Seq, x.ID}}
		p.last, entries = e.mark, append(entries, e)
	}
	p.open = append(p.open, entries...)
	return entries
}

// finish marks one as done, and writes up to which one all are.
func (p *progress) finish(e *forgottenEntry) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	e.done = true
	n := 0
	for n < len(p.open) && p.open[n].done {
		n++
	}
	if n == 0 {
		return nil
	}
	if err := writeDurably(p.path, storable.MustJSON(p.open[n-1].mark)); err != nil {
		return err
	}
	p.open = p.open[n:]
	return nil
}
