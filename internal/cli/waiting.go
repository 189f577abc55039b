package cli

import (
	"context"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bloom-runtime/bloom/client"
)

// patience is how long a task may wait before the reason is shown.
const patience = 3 * time.Second

// explainWaiting prints once why a task is still waiting, unless stop is called first. After stop
// returns nothing more is printed.
func explainWaiting(ctx context.Context, api *client.Client, id string, v *view) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var done sync.WaitGroup
	done.Go(func() {
		t := time.NewTimer(patience)
		defer t.Stop()
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		now, err := api.Task(ctx, id)
		if err == nil && now.WaitingFor != nil { // otherwise the stream shows the server's failure
			v.warn("waiting: " + now.WaitingFor.Sentence)
		}
	})
	return func() {
		cancel()
		done.Wait()
	}
}

// explainRetrying prints once why a task has not been submitted yet, unless stop is called first.
// After stop returns nothing more is printed.
func explainRetrying(inv *invocation, api *client.Client, url string, last *atomic.Pointer[error]) (stop func()) {
	ctx, cancel := context.WithCancel(inv.ctx)
	var done sync.WaitGroup
	done.Go(func() {
		t := time.NewTimer(patience)
		defer t.Stop()
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		var why string
		if err := last.Load(); err != nil {
			why = explain(*err)
		} else {
			why = whyNotYet(ctx, api, url)
		}
		if ctx.Err() == nil {
			fmt.Fprintln(inv.Err, clean(why, true)+". Still trying; Ctrl-C stops.")
		}
	})
	return func() {
		cancel()
		done.Wait()
	}
}

// whyNotYet asks the server's health endpoint why it has not answered.
func whyNotYet(ctx context.Context, api *client.Client, url string) string {
	ctx, done := context.WithTimeout(ctx, patience)
	defer done()
	_, err := api.WithRetry(client.NoRetry).Health(ctx)
	switch {
	case err == nil:
		return "The server is slow to answer"
	case ctx.Err() != nil:
		return "The server at " + url + " does not answer"
	}
	return explain(err)
}

// lockedWriter lets two goroutines write whole lines, and keeps the first error.
type lockedWriter struct {
	mu  sync.Mutex
	w   io.Writer
	err error
}

func (l *lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, err := l.w.Write(p)
	if l.err == nil {
		l.err = err
	}
	return n, err
}

// failed returns the first error.
func (l *lockedWriter) failed() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}
