package cli

import (
	"context"
	"io"
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
		return "waiting: every worker that fits is draining; lift it with: bloom workers drain --off NAME"
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
