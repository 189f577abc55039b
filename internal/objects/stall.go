package objects

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"
)

// minRate is the slowest useful transfer, in bytes per second. A storage that sends a byte now and
// then would otherwise occupy its caller for days.
const minRate = 1 << 10

// stallGuard fails a request that transfers less than minRate for a while. A timeout for the whole
// request would have to allow for the largest object on the slowest network; this detects a storage
// that hangs much sooner.
type stallGuard struct {
	next  http.RoundTripper
	limit time.Duration
}

// RoundTrip implements http.RoundTripper. The time that the caller takes to provide or to read
// content does not count.
func (g *stallGuard) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(r.Context())
	wait := newPatience(g.limit, func() { cancel(ErrStalled) })
	watched := r.WithContext(ctx)
	body := &sentBody{ReadCloser: r.Body, wait: wait}
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
	res.Body = &receivedBody{ReadCloser: res.Body, ctx: ctx, cancel: cancel, wait: wait}
	return res, nil
}

// patience bounds how long a request waits for the storage. It is renewed whenever as much was
// transferred as minRate demands.
type patience struct {
	limit time.Duration
	timer *time.Timer
	since time.Time     // when it was last resumed
	left  time.Duration // of the limit, at that time
	moved int           // bytes since it was last renewed
}

func newPatience(limit time.Duration, end func()) *patience {
	return &patience{limit: limit, timer: time.AfterFunc(limit, end), since: time.Now(), left: limit}
}

func (p *patience) resume() {
	p.since = time.Now()
	p.timer.Reset(p.left)
}

func (p *patience) pause() {
	p.timer.Stop()
	p.left -= time.Since(p.since)
}

func (p *patience) add(bytes int) {
	if p.moved += bytes; float64(p.moved) >= minRate*p.limit.Seconds() {
		p.renew()
	}
}

func (p *patience) renew() { p.left, p.moved = p.limit, 0 }

// sentBody is the request's body: the request waits except while the caller provides content.
type sentBody struct {
	io.ReadCloser

	mu   sync.Mutex
	wait *patience // nil once the response has arrived, which may be before everything was sent
}

func (b *sentBody) Read(p []byte) (int, error) {
	b.with((*patience).pause)
	n, err := b.ReadCloser.Read(p)
	b.with(func(wait *patience) {
		if wait.add(n); err != nil {
			wait.renew() // the storage may need the whole limit to process what was sent
		}
		wait.resume()
	})
	return n, err
}

func (b *sentBody) with(do func(*patience)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.wait != nil {
		do(b.wait)
	}
}

func (b *sentBody) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.wait.pause()
	b.wait.renew()
	b.wait = nil
}

// receivedBody is the response's body: the request waits while the caller reads content.
type receivedBody struct {
	io.ReadCloser
	ctx    context.Context
	cancel context.CancelCauseFunc
	wait   *patience
}

func (r *receivedBody) Read(p []byte) (int, error) {
	r.wait.resume()
	n, err := r.ReadCloser.Read(p)
	r.wait.pause()
	r.wait.add(n)
	if err != nil && !errors.Is(err, io.EOF) && errors.Is(context.Cause(r.ctx), ErrStalled) {
		err = ErrStalled
	}
	return n, err
}

func (r *receivedBody) Close() error {
	r.wait.timer.Stop()
	defer r.cancel(nil)
	return r.ReadCloser.Close()
}
