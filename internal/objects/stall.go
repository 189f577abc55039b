package objects

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"
)

// stallGuard fails a request of which nothing moves for a while. A limit on the whole
// would have to allow for the largest object over the slowest line; a storage that
// hangs is noticed at once this way.
type stallGuard struct {
	next  http.RoundTripper
	limit time.Duration
}

// RoundTrip implements http.RoundTripper. The time that the caller takes to provide
// content, or to take it, does not count.
func (g *stallGuard) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(r.Context())
	timer := time.AfterFunc(g.limit, func() { cancel(ErrStalled) })
	watched := r.WithContext(ctx)
	body := &paused{ReadCloser: r.Body, timer: timer, limit: g.limit}
	if r.Body != nil && r.Body != http.NoBody {
		watched.Body = body
	}
	res, err := g.next.RoundTrip(watched)
	body.end()
	if err != nil {
		if errors.Is(context.Cause(ctx), ErrStalled) {
			err = ErrStalled
		}
		cancel(nil)
		return nil, err
	}
	res.Body = &timed{ReadCloser: res.Body, ctx: ctx, cancel: cancel, timer: timer, limit: g.limit}
	return res, nil
}

// paused is what is sent: the clock stands while the caller provides it.
type paused struct {
	io.ReadCloser
	limit time.Duration

	mu    sync.Mutex
	timer *time.Timer // nil when the answer is there: some come before all was sent
}

func (p *paused) Read(b []byte) (int, error) {
	p.set(false)
	n, err := p.ReadCloser.Read(b)
	p.set(true)
	return n, err
}

func (p *paused) set(run bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.timer == nil:
	case run:
		p.timer.Reset(p.limit)
	default:
		p.timer.Stop()
	}
}

func (p *paused) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.timer.Stop()
	p.timer = nil
}

// timed is what is received: the clock runs while the caller waits for it.
type timed struct {
	io.ReadCloser
	ctx    context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer
	limit  time.Duration
}

func (t *timed) Read(b []byte) (int, error) {
	t.timer.Reset(t.limit)
	n, err := t.ReadCloser.Read(b)
	t.timer.Stop()
	if err != nil && !errors.Is(err, io.EOF) && errors.Is(context.Cause(t.ctx), ErrStalled) {
		err = ErrStalled
	}
	return n, err
}

func (t *timed) Close() error {
	t.timer.Stop()
	defer t.cancel(nil)
	return t.ReadCloser.Close()
}
