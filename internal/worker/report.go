package worker

import (
	"context"
	"time"

	"github.com/bloom-runtime/bloom"
)

// reportEvery is how often new lines of the log are reported, reportWait how long one
// report may take.
const (
	reportEvery = 3 * time.Second
	reportWait  = 5 * time.Second
)

// reportLogs reports the log's last lines when there are new ones, until ctx ends, and
// once more then. A report that fails is made again with the next: it has all lines.
func (w *Worker) reportLogs(ctx context.Context) {
	if w.cfg.Tail == nil {
		return
	}
	ticker := time.NewTicker(reportEvery)
	defer ticker.Stop()
	said := 0
	report := func(ctx context.Context) {
		ctx, done := context.WithTimeout(ctx, reportWait)
		defer done()
		lines, count := w.cfg.Tail.since(said)
		if lines != nil && w.cfg.Client.ReportLogs(ctx, w.cfg.Name, bloom.LogReport{InstanceID: w.state.instance, Lines: lines}) == nil {
			said = count
		}
	}
	for {
		report(ctx)
		select {
		case <-ctx.Done():
			report(context.WithoutCancel(ctx))
			return
		case <-ticker.C:
		}
	}
}
