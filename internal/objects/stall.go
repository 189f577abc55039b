package objects

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"
)

// stallGuard fails a request that transfers no bytes for a while. A timeout for the whole request
// would have to allow for the largest object on the slowest network; this detects a storage that
// hangs much sooner.
type stallGuard struct {
	next  http.RoundTripper
	limit time.Duration
}

// RoundTrip implements http.RoundTripper. The time that the caller takes to provide or to read
// content does not count.
func (g *stallGuard) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(r.Context())
	timer := time.AfterFunc(g.limit, func() { cancel(ErrStalled) })
	watched := r.WithContext(ctx)
	body := &sentBody{ReadCloser: r.Body, timer: timer, limit: g.limit}
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
	res.Body = &receivedBody{ReadCloser: res.Body, ctx: ctx, cancel: cancel, timer: timer, limit: g.limit}
	return res, nil
}

// sentBody is the request's body: the timer is stopped while the caller provides content.
type sentBody struct {
	io.ReadCloser
	limit time.Duration

	mu    sync.Mutex
	timer *time.Timer // nil once the response has arrived, which may be before everything was sent
}

func (b *sentBody) Read(p []byte) (int, error) {
	b.set(false)
	n, err := b.ReadCloser.Read(p)
	b.set(true)
	return n, err
}

func (b *sentBody) set(run bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.timer == nil:
	case run:
		b.timer.Reset(b.limit)
	default:
		b.timer.Stop()
	}
}

func (b *sentBody) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.timer.Stop()
	b.timer = nil
}

// receivedBody is the response's body: the timer runs while the caller waits for content.
type receivedBody struct {
	io.ReadCloser
	ctx    context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer
	limit  time.Duration
}

func (r *receivedBody) Read(p []byte) (int, error) {
	r.timer.Reset(r.limit)
	n, err := r.ReadCloser.Read(p)
	r.timer.Stop()
	if err != nil && !errors.Is(err, io.EOF) && errors.Is(context.Cause(r.ctx), ErrStalled) {
		err = ErrStalled
	}
	return n, err
}

func (r *receivedBody) Close() error {
	r.timer.Stop()
	defer r.cancel(nil)
	return r.ReadCloser.Close()
}
