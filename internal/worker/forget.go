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

// forgets are contexts that are being forgotten on this machine, beside the polls.
type forgets struct {
	w    *Worker
	ctx  context.Context //nolint:containedctx // of what runs beside the polls
	end  context.CancelFunc
	rest sync.WaitGroup
	more bool // the last answer named some, and there may be more
}

func newForgets(ctx context.Context, w *Worker) *forgets {
	f := &forgets{w: w}
	f.ctx, f.end = context.WithCancel(ctx)
	return f
}

// begin forgets contexts. A task that is begun afterwards knows nothing of them.
func (f *forgets) begin(contexts []bloom.ForgottenContext) {
	f.more = len(contexts) > 0
	for _, x := range contexts {
		f.w.state.forgotten.begin(x.Seq)
		finish := f.w.cfg.Forget(x.ID)
		f.rest.Go(func() { f.finish(x, finish) })
	}
}

func (f *forgets) finish(x bloom.ForgottenContext, finish func(context.Context) error) {
	err := finish(f.ctx)
	if err != nil && f.ctx.Err() != nil {
		return // the server tells the worker again when it starts
	}
	if err != nil {
		f.w.log.Error("a forgotten context could not be dropped whole", "context_id", x.ID, "error", err)
	}
	if err := f.w.state.forgotten.finish(x.Seq); err != nil {
		f.w.log.Error("how far contexts were forgotten could not be noted", "error", err)
	}
}

// stop interrupts what is being removed and waits for it.
func (f *forgets) stop() {
	f.end()
	f.rest.Wait()
}

// progress is how far this machine has come with forgetting contexts, which are
// numbered. It is safe for concurrent use.
type progress struct {
	path string

	mu    sync.Mutex
	last  int64          // the last one that the server named
	open  map[int64]bool // those of them that are not done
	noted int64          // all up to this one are done, and the file says so
}

// openProgress reads how far an earlier life came. A file that cannot be read begins
// anew: forgetting twice harms nothing.
func openProgress(path string) *progress {
	raw, _ := os.ReadFile(path)
	noted, _ := strconv.ParseInt(strings.TrimSpace(string(raw)), 10, 64)
	noted = max(0, noted)
	return &progress{path: path, last: noted, noted: noted, open: map[int64]bool{}}
}

// told is the number of the last one that the server named.
func (p *progress) told() int64 {
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

// finish notes one, and with it how far there are none before that are not done.
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
