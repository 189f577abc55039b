package worker

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"

	"github.com/bloom-runtime/bloom"
)

// forgetter deletes this machine's data of forgotten contexts, beside the polls.
type forgetter struct {
	w    *Worker
	ctx  context.Context //nolint:containedctx // of the background deletions
	end  context.CancelFunc
	rest sync.WaitGroup
	more bool // the last answer named some, so there may be more
}

func newForgetter(ctx context.Context, w *Worker) *forgetter {
	f := &forgetter{w: w}
	f.ctx, f.end = context.WithCancel(ctx)
	return f
}

// begin forgets contexts. Tasks that start after it returns do not see their data.
func (f *forgetter) begin(contexts []bloom.ForgottenContext) {
	f.more = len(contexts) > 0
	for _, x := range contexts {
		f.w.state.forgotten.begin(x.Seq)
		finish := f.w.cfg.Forget(x.ID)
		f.rest.Go(func() { f.finish(x, finish) })
	}
}

func (f *forgetter) finish(x bloom.ForgottenContext, finish func(context.Context) error) {
	err := finish(f.ctx)
	if err != nil && f.ctx.Err() != nil {
		return // the server names it again after the next start
	}
	if err != nil {
		f.w.log.Error("the data of a forgotten context could not be deleted completely", "context_id", x.ID, "error", err)
	}
	if err := f.w.state.forgotten.finish(x.Seq); err != nil {
		f.w.log.Error("the progress of forgetting contexts could not be written", "error", err)
	}
}

// stop cancels the deletions and waits until they have ended.
func (f *forgetter) stop() {
	f.end()
	f.rest.Wait()
}

// progress records which forgotten contexts, by their sequence number, this machine has
// dealt with. It is safe for concurrent use.
type progress struct {
	path string

	mu    sync.Mutex
	last  int64          // the highest number that the server named
	open  map[int64]bool // numbers that are not done
	noted int64          // the number in the file: all up to it are done
}

// openProgress reads the progress of an earlier process. With an unreadable file it
// starts at 0, because forgetting twice does no harm.
func openProgress(path string) *progress {
	raw, _ := os.ReadFile(path)
	noted, _ := strconv.ParseInt(strings.TrimSpace(string(raw)), 10, 64)
	noted = max(0, noted)
	return &progress{path: path, last: noted, noted: noted, open: map[int64]bool{}}
}

// lastSeq returns the highest number that the server named.
func (p *progress) lastSeq() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last
}

func (p *progress) begin(seq int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = max(p.last, seq)
	p.open[seq] = true
}

// finish marks a number as done and writes the progress.
func (p *progress) finish(seq int64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, seq)
	done := p.last
	for open := range p.open {
		done = min(done, open-1)
	}
	if done <= p.noted {
		return nil
	}
	if err := writeDurably(p.path, fmt.Appendf(nil, "%d\n", done)); err != nil {
		return err
	}
	p.noted = done
	return nil
}
