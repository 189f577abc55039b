package announce

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"

	"github.com/bloom-runtime/bloom/internal/membridge/mbclient"
)

// commands are what membridge has asked for and does not know the outcome of. Each is
// carried out by a goroutine of its own.
type commands struct {
	carry func(context.Context, mbclient.Command) mbclient.Report
	log   *slog.Logger

	mu      sync.Mutex
	running map[string]bool   // by id
	ended   []mbclient.Report // not yet fetched
	bell    chan struct{}     // rings when one ends
	all     sync.WaitGroup
}

func newCommands(carry func(context.Context, mbclient.Command) mbclient.Report, log *slog.Logger) *commands {
	return &commands{carry: carry, log: log, running: map[string]bool{}, bell: make(chan struct{}, 1)}
}

// start has a command carried out until ctx ends, unless it is under way already, as
// one is whose answer came twice.
func (c *commands) start(ctx context.Context, command mbclient.Command) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running[command.ID] {
		return
	}
	c.running[command.ID] = true
	c.all.Go(func() {
		report := c.carry(ctx, command)
		report.JobID = command.ID
		log := c.log.With(slog.String("command", command.Type), slog.String("project", command.Project), slog.String("job", command.ID))
		if report.Status == Failed {
			log.Warn("membridge's command was not carried out", slog.String("error", report.Detail))
		} else {
			log.Info("membridge's command was carried out", slog.String("outcome", report.Detail))
		}
		c.end(report)
	})
}

func (c *commands) end(report mbclient.Report) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.running, report.JobID)
	c.ended = append(c.ended, report)
	select {
	case c.bell <- struct{}{}:
	default: // it rings already
	}
}

// take returns the reports on those that ended, once, and the ids of the others.
func (c *commands) take() (ended []mbclient.Report, held []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.bell:
	default:
	}
	ended, c.ended = c.ended, nil
	return ended, slices.Sorted(maps.Keys(c.running))
}

// untilOneEnds is ctx, which also ends as soon as a command has ended. release must be
// called; it reports whether that was so.
func (c *commands) untilOneEnds(ctx context.Context) (_ context.Context, release func() bool) {
	ctx, cancel := context.WithCancel(ctx)
	rung := false
	var watch sync.WaitGroup
	watch.Go(func() {
		select {
		case <-c.bell:
			rung = true
			cancel()
		case <-ctx.Done():
		}
	})
	return ctx, func() bool {
		cancel()
		watch.Wait()
		return rung
	}
}
