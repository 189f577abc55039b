package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/client"
)

// patience is how long a task may wait before a person is told why.
const patience = 3 * time.Second

// tellWaiting says once why a task is still waiting, unless stop comes first.
// stop returns when nothing more will be said.
func tellWaiting(ctx context.Context, api *client.Client, task bloom.Task, v *view) (stop func()) {
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
		workers, err := api.Workers(ctx)
		if err == nil { // else the stream tells what is wrong with the server
			v.warn(waitReason(task, workers, time.Now()))
		}
	})
	return func() {
		cancel()
		said.Wait()
	}
}

// tellTrying says once why a task is not yet submitted, unless stop comes first.
// stop returns when nothing more will be said.
func tellTrying(inv *invocation, url string) (stop func()) {
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
		if why := whyNotYet(ctx, url); ctx.Err() == nil {
			fmt.Fprintln(inv.Err, why+". Still trying; Ctrl-C stops.")
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

// waitReason is the likeliest reason for a queued task not to start, and what to
// do about it.
func waitReason(task bloom.Task, workers []bloom.Worker, now time.Time) string {
	keep := func(fits func(bloom.Worker) bool) bool {
		workers = slices.DeleteFunc(slices.Clone(workers), func(w bloom.Worker) bool { return !fits(w) })
		return len(workers) > 0
	}
	switch {
	case task.RunAt > now.UnixMilli():
		return "waiting until " + time.UnixMilli(task.RunAt).Format(time.RFC1123)
	case len(workers) == 0:
		return "waiting: no worker is registered; start one with: bloom worker"
	case !keep(func(w bloom.Worker) bool { return w.Status == bloom.WorkerOnline }):
		return "waiting: no worker is online; see: bloom workers"
	case !keep(func(w bloom.Worker) bool { return w.Capabilities.Carries(task.Labels) }):
		return "waiting: no online worker carries the labels " + strings.Join(task.Labels, ", ")
	case !keep(func(w bloom.Worker) bool { return w.Capabilities.ClaudeCLI }):
		return "waiting: no worker that fits has the claude command line; bloom doctor on its machine tells more"
	case !keep(func(w bloom.Worker) bool { return !w.Draining }):
		return "waiting: every worker that fits is drained; let one work again with: bloom workers drain --off NAME"
	case !keep(func(w bloom.Worker) bool { return w.Free() > 0 }):
		return "waiting: every worker that fits is busy"
	case task.Policy.Ordered:
		return "waiting: earlier ordered tasks of the context have not ended"
	}
	return "waiting for a worker"
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
