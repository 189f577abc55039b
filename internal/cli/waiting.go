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

// patience is how long a task may wait before a person is told why.
const patience = 3 * time.Second

// tellWaiting says once why a task is still waiting, unless stop comes first.
// stop returns when nothing more will be said.
func tellWaiting(ctx context.Context, api *client.Client, id string, v *view) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var said sync.WaitGroup
	said.Go(func() {
		t := time.NewTimer(patience)
		defer t.Stop()
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		now, err := api.Task(ctx, id)
		if err == nil && now.WaitingFor != nil { // else the stream tells what is wrong with the server
			v.warn("waiting: " + now.WaitingFor.Sentence)
		}
	})
	return func() {
		cancel()
		said.Wait()
	}
}

// tellTrying says once why a task is not yet submitted, unless stop comes first: what
// the last try came to, or, when none has ended, what the server's health says. stop
// returns when nothing more will be said.
func tellTrying(inv *invocation, url string, last *atomic.Pointer[error]) (stop func()) {
	ctx, cancel := context.WithCancel(inv.ctx)
	var said sync.WaitGroup
	said.Go(func() {
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
		said.Wait()
	}
}

// whyNotYet asks the server's health why it has not answered. The SDK takes what
// is no success for a failure; here it is the answer.
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
		return "What answers at " + url + " is not a runtime"
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
