package claude

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/bloom-runtime/bloom/internal/process"
)

const (
	// warmIdle is how long a warm process waits for its context's next task.
	warmIdle = 10 * time.Minute
	// warmMemory is the maximum memory of a warm process, in bytes.
	warmMemory = 600 << 20
	// warmGrowth is the maximum growth of a warm process since its first turn, in bytes.
	// claude grows with every turn; a new process that resumes the session is smaller.
	warmGrowth = 64 << 20
	// warmReserve is the memory that must be free on the machine to keep a process, in bytes.
	warmReserve = 768 << 20
	// warmWatch is how often the pool checks the free memory.
	warmWatch = 15 * time.Second
)

// DefaultWarm returns how many processes a machine keeps by default, given its memory in
// bytes: one for every 2 GiB, at most 8.
func DefaultWarm(memory int64) int { return int(min(memory>>31, 8)) }

// warmLimits are the limits of a pool.
type warmLimits struct {
	idle, watch time.Duration
	memory      int64        // of one process, in bytes
	growth      int64        // of one process since its first turn, in bytes
	reserve     int64        // memory that must be free, in bytes
	free        func() int64 // returns the free memory, in bytes
}

// pool keeps warm processes between tasks: those of contexts, and one spare process for
// the next new context.
type pool struct {
	max    int // processes to keep, including the spare one; 0 keeps none
	limits warmLimits
	log    *slog.Logger

	mu       sync.Mutex
	idle     []*warmProcess // least recently used first
	eviction eviction
	spare    *warmProcess
	refused  string // the key with which a spare process could not be claimed
	watching bool
	starting chan struct{} // closed when the spare process has started; nil while none is starting
	closed   bool

	background sync.WaitGroup
	ctx        context.Context //nolint:containedctx // of the background goroutines
	stop       context.CancelFunc
}

func newPool(most int, log *slog.Logger) *pool {
	if !process.FullTree {
		most = 0 // processes that a turn leaves running could not be found
	}
	if most < 0 {
		most = DefaultWarm(process.TotalMemory())
	}
	ctx, stop := context.WithCancel(context.Background())
	limits := warmLimits{idle: warmIdle, watch: warmWatch, memory: warmMemory, growth: warmGrowth, reserve: warmReserve, free: process.FreeMemory}
	return &pool{max: most, limits: limits, log: log, ctx: ctx, stop: stop}
}

// take returns the context's warm process if it was started with the key, or for a context
// without a session the spare one if it was started with the spare's key. It stops a process
// of the context that cannot be used. While the spare process is starting, it waits until ctx
// ends.
func (p *pool) take(ctx context.Context, contextID, sessionID, key, spareKey string) (l *warmProcess, kind string) {
	p.mu.Lock()
	if starting := p.starting; starting != nil && sessionID == "" {
		p.mu.Unlock()
		select {
		case <-starting:
		case <-ctx.Done():
			return nil, ""
		}
		p.mu.Lock()
	}
	var found *warmProcess
	if i := slices.IndexFunc(p.idle, func(l *warmProcess) bool { return l.contextID == contextID }); i >= 0 {
		found = p.idle[i]
		p.idle = slices.Delete(p.idle, i, i+1)
		kind = "living"
	} else if p.spare != nil && sessionID == "" && p.spare.key == spareKey {
		found, p.spare, kind, key = p.spare, nil, "spare", spareKey
	}
	p.mu.Unlock()
	if found == nil {
		return nil, ""
	}
	if found.idle != nil {
		found.idle.Stop()
	}
	why := found.replaceReason(p.limits)
	if why == "" && (found.key != key || found.sessionID != sessionID) {
		why = "the task needs another session or other options"
	}
	if why != "" {
		p.log.Debug("replacing a live claude process", "reason", why)
		found.end()
		return nil, ""
	}
	found.contextID = contextID
	return found, kind
}

// put keeps the process for the context's next task, or stops it. If there are too many, one
// is stopped.
func (p *pool) put(l *warmProcess) {
	why := l.replaceReason(p.limits)
	p.mu.Lock()
	if why == "" && (p.closed || p.max == 0) {
		why = "no processes are kept"
	}
	if why != "" {
		p.mu.Unlock()
		p.log.Debug("stopping a live claude process", "reason", why)
		l.end()
		return
	}
	l.process.Freeze() // a hook of its folder would otherwise work while there is no task
	p.idle = append(p.idle, l)
	p.eviction.used(l.contextID, max(1, p.max-p.spares()))
	l.idle = time.AfterFunc(p.limits.idle, func() { p.drop(l) })
	p.mu.Unlock()
	p.shrink()
}

// memoryLow reports whether the machine has too little free memory for another process.
func (p *pool) memoryLow() bool { return p.limits.free() < p.limits.reserve }

// shrink stops the processes that are too many, and one process when memory is low. While
// processes are kept it is called again after limits.watch, so that each stopped process
// has freed its memory before the next one is stopped.
func (p *pool) shrink() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.idle)+p.spares() > p.max && len(p.idle) > 0 {
		p.endIdle(p.eviction.victim(len(p.idle)))
	}
	if p.memoryLow() {
		if len(p.idle) > 0 {
			p.endIdle(0)
		} else if p.spare != nil {
			p.stopLocked(p.spare)
			p.spare = nil
		}
	}
	if kept := len(p.idle) > 0 || p.spare != nil; kept && !p.watching && !p.closed {
		p.watching = true
		p.background.Go(p.watch)
	}
}

func (p *pool) endIdle(i int) {
	p.stopLocked(p.idle[i])
	p.idle = slices.Delete(p.idle, i, i+1)
}

// watch calls shrink after a while.
func (p *pool) watch() {
	timer := time.NewTimer(p.limits.watch)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-p.ctx.Done():
	}
	p.mu.Lock()
	p.watching = false
	p.mu.Unlock()
	p.shrink()
}

// stopLocked stops the process in the background. It requires p.mu.
func (p *pool) stopLocked(l *warmProcess) {
	if l.idle != nil {
		l.idle.Stop()
	}
	p.background.Go(l.end)
}

// drop stops a process that was idle for too long.
func (p *pool) drop(l *warmProcess) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := slices.Index(p.idle, l); i >= 0 {
		p.idle = slices.Delete(p.idle, i, i+1)
		p.stopLocked(l)
	}
}

// has reports whether a process is kept for the context.
func (p *pool) has(contextID string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(p.idle, func(l *warmProcess) bool { return l.contextID == contextID })
}

// evict stops the process that is kept for the context, and waits until it has ended.
func (p *pool) evict(contextID string) {
	p.mu.Lock()
	var found *warmProcess
	if i := slices.IndexFunc(p.idle, func(l *warmProcess) bool { return l.contextID == contextID }); i >= 0 {
		found = p.idle[i]
		p.idle = slices.Delete(p.idle, i, i+1)
	}
	p.mu.Unlock()
	if found != nil {
		found.idle.Stop()
		found.end()
	}
}

// close stops all processes and waits until they have ended.
func (p *pool) close() {
	p.stop()
	p.mu.Lock()
	p.closed = true
	for _, l := range p.idle {
		p.stopLocked(l)
	}
	p.idle = nil
	if p.spare != nil {
		p.stopLocked(p.spare)
		p.spare = nil
	}
	p.mu.Unlock()
	p.background.Wait()
}
