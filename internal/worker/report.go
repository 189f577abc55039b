package worker

import (
	"context"
	"time"

	"github.com/bloom-runtime/bloom"
)

// reportEvery is how often new log lines are reported; reportWait is how long one report
// may take.
const (
	reportEvery = 3 * time.Second
	reportWait  = 5 * time.Second
)

// reportLogs reports the last log lines whenever there are new ones, until ctx ends, and
// once more then. A failed report is not repeated, because the next one has all lines.
func (w *Worker) reportLogs(ctx context.Context) {
	if w.cfg.Tail == nil {
		return
	}
	ticker := time.NewTicker(reportEvery)
	defer ticker.Stop()
	reported := 0
	report := func(ctx context.Context) {
		ctx, done := context.WithTimeout(ctx, reportWait)
		defer done()
		lines, count := w.cfg.Tail.since(reported)
		if lines != nil && w.cfg.Client.ReportLogs(ctx, w.cfg.Name, bloom.LogReport{InstanceID: w.state.instance, Lines: lines}) == nil {
			reported = count
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
