package announce

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"

	"github.com/bloom-runtime/bloom/internal/membridge/mbclient"
	"github.com/bloom-runtime/bloom/internal/storable"
)

// commands are membridge's commands whose outcome has not been reported. Each runs on its own
// goroutine.
type commands struct {
	execute func(context.Context, mbclient.Command) mbclient.Report
	log     *slog.Logger

	mu      sync.Mutex
	running map[string]bool   // by id
	ended   []mbclient.Report // not yet fetched
	done    chan struct{}     // signals that a command has ended
	all     sync.WaitGroup
}

func newCommands(execute func(context.Context, mbclient.Command) mbclient.Report, log *slog.Logger) *commands {
	return &commands{execute: execute, log: log, running: map[string]bool{}, done: make(chan struct{}, 1)}
}

// start carries out a command until ctx ends, unless it is already in progress: membridge may send
// it twice.
func (c *commands) start(ctx context.Context, command mbclient.Command) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running[command.ID] {
		return
	}
	c.running[command.ID] = true
	c.all.Go(func() {
		report := c.execute(ctx, command)
		report.JobID = command.ID
		report.Detail, report.Stdout, report.Stderr = storable.Cut(storable.Text(report.Detail), maxDetail), storable.Cut(storable.Text(report.Stdout), maxOutput), storable.Cut(storable.Text(report.Stderr), maxOutput)
		log := c.log.With(slog.String("command", command.Type), slog.String("project", command.Project), slog.String("job", command.ID))
		if report.Status == Failed {
			log.Warn("membridge's command failed", slog.String("error", report.Detail))
		} else {
			log.Info("membridge's command completed", slog.String("outcome", report.Detail))
		}
		c.end(report)
	})
}

// Maximum lengths in a report, in bytes. Membridge would refuse a longer one, and with it every
// heartbeat until the report has arrived.
const (
	maxDetail = 4 << 10
	maxOutput = 64 << 10
)

func (c *commands) end(report mbclient.Report) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.running, report.JobID)
	c.ended = append(c.ended, report)
	select {
	case c.done <- struct{}{}:
	default: // already signalled
	}
}

// take returns the reports of the commands that ended since the last call, and the ids of those in
// progress.
func (c *commands) take() (ended []mbclient.Report, held []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.done:
	default:
	}
	ended, c.ended = c.ended, nil
	return ended, slices.Sorted(maps.Keys(c.running))
}

// cancelWhenOneEnds returns a context that is also cancelled when a command ends. release must be
// called; it reports whether that happened.
func (c *commands) cancelWhenOneEnds(ctx context.Context) (_ context.Context, release func() bool) {
	ctx, cancel := context.WithCancel(ctx)
	ended := false
	var watch sync.WaitGroup
	watch.Go(func() {
		select {
		case <-c.done:
			ended = true
			cancel()
		case <-ctx.Done():
		}
	})
	return ctx, func() bool {
		cancel()
		watch.Wait()
		return ended
	}
}
