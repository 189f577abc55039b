package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
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
func explainRetrying(inv *invocation, url string, last *atomic.Pointer[error]) (stop func()) {
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
			why = whyNotYet(ctx, url)
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

// whyNotYet asks the server's health endpoint why it has not answered. The SDK treats a non-success
// as a failure; here it is the result.
func whyNotYet(ctx context.Context, url string) string {
	ctx, done := context.WithTimeout(ctx, patience)
	defer done()
	const silent = "The server does not answer"
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/health", nil)
	if err != nil {
		return silent
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return silent
	}
	defer res.Body.Close()
	var health struct {
		Status string `json:"status"`
	}
	err = json.NewDecoder(io.LimitReader(res.Body, 64<<10)).Decode(&health)
	switch {
	case err != nil:
		return "The server at " + url + " is not a runtime"
	case health.Status == "degraded":
		return "The server cannot reach its database"
	}
	return "The server is slow to answer"
}

// lockedWriter lets two goroutines write whole lines.
type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}
