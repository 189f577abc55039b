package claude

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/bloom-runtime/bloom/internal/process"
)

const (
	// warmIdle is how long a living process waits for its context's next task.
	warmIdle = 10 * time.Minute
	// warmMemory is what a living process may use, in bytes; one that has grown
	// beyond it is replaced.
	warmMemory = 600 << 20
	// warmGrowth is by how much it may have grown since its first turn, in bytes. claude
	// grows with every turn; a new process that resumes the session has less.
	warmGrowth = 64 << 20
	// warmReserve is what must be free on the machine for a process to be kept.
	warmReserve = 768 << 20
	// warmWatch is how often it is looked whether it still is.
	warmWatch = 15 * time.Second
)

// DefaultWarm is how many processes a machine with so many bytes of memory keeps unless
// it is told: one for every 2 GiB, at most 8.
func DefaultWarm(memory int64) int { return int(min(memory>>31, 8)) }

// warmLimits are the bounds of what is kept.
type warmLimits struct {
	idle, watch time.Duration
	memory      int64        // of one process, in bytes
	growth      int64        // of one process since its first turn, in bytes
	reserve     int64        // that must be free, in bytes
	free        func() int64 // is free, in bytes
}

// pool keeps living processes between tasks: those of contexts, and one spare
// process for whoever comes first.
type pool struct {
	max    int // processes kept, the spare one among them; 0 keeps none
	limits warmLimits
	log    *slog.Logger

	mu       sync.Mutex
	idle     []*living // the one that was used longest ago first
	spare    *living
	watching bool
	starting chan struct{} // closed when the spare one that is being started is there, or nil
	closed   bool
	ending   sync.WaitGroup
	life     context.Context //nolint:containedctx // of what runs in the background
	stop     context.CancelFunc
}

func newPool(most int, log *slog.Logger) *pool {
	if !process.FullTree {
		most = 0 // work that a turn leaves running cannot be found
	}
	if most < 0 {
		most = DefaultWarm(process.TotalMemory())
	}
	life, stop := context.WithCancel(context.Background())
	limits := warmLimits{idle: warmIdle, watch: warmWatch, memory: warmMemory, growth: warmGrowth, reserve: warmReserve, free: process.FreeMemory}
	return &pool{max: most, limits: limits, log: log, life: life, stop: stop}
}

// take hands out the living process of the context, or the spare one for a
// context without a session, when all that is fixed at its start is the same.
// One that does not fit is ended before take returns.
func (p *pool) take(contextID, sessionID, key string) (l *living, kind string) {
	p.mu.Lock()
	if starting := p.starting; starting != nil && sessionID == "" {
		p.mu.Unlock()
		<-starting // soon: it need not be ready
		p.mu.Lock()
	}
	var found *living
	if i := slices.IndexFunc(p.idle, func(l *living) bool { return l.contextID == contextID }); i >= 0 {
		found = p.idle[i]
		p.idle = slices.Delete(p.idle, i, i+1)
		kind = "living"
	} else if p.spare != nil && sessionID == "" && p.spare.key == key { // else it waits for another, or Prepare replaces it
		found, p.spare, kind = p.spare, nil, "spare"
	}
	p.mu.Unlock()
	if found == nil {
		return nil, ""
	}
	if found.idle != nil {
		found.idle.Stop()
	}
	why := found.unfit(p.limits)
	if why == "" && (found.key != key || found.sessionID != sessionID) {
		why = "the task needs another one"
	}
	if why != "" {
		p.log.Debug("replacing a living claude", "reason", why)
		found.end()
		return nil, ""
	}
	found.contextID = contextID
	return found, kind
}

// put keeps the process for the context's next task, or ends it. The one that
// was used longest ago makes room.
func (p *pool) put(l *living) {
	why := l.unfit(p.limits)
	p.mu.Lock()
	if why == "" && (p.closed || p.max == 0) {
		why = "none are kept"
	}
	if why != "" {
		p.mu.Unlock()
		p.log.Debug("ending a living claude", "reason", why)
		l.end()
		return
	}
	p.idle = append(p.idle, l)
	l.idle = time.AfterFunc(p.limits.idle, func() { p.drop(l) })
	p.mu.Unlock()
	p.shrink()
}

// short reports whether the machine has too little memory left for one more.
func (p *pool) short() bool { return p.limits.free() < p.limits.reserve }

// shrink ends processes until no more are kept than may be, one after the other: what
// one that ends gives back is free for the next. It looks again now and then.
func (p *pool) shrink() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.idle)+p.spares() > p.max && len(p.idle) > 0 {
		p.endOldest()
	}
	if p.short() {
		if len(p.idle) > 0 {
			p.endOldest()
		} else if p.spare != nil {
			p.endLocked(p.spare)
			p.spare = nil
		}
	}
	if kept := len(p.idle) > 0 || p.spare != nil; kept && !p.watching && !p.closed {
		p.watching = true
		p.ending.Go(p.watch)
	}
}

func (p *pool) endOldest() {
	p.endLocked(p.idle[0])
	p.idle = p.idle[1:]
}

// watch shrinks after a while.
func (p *pool) watch() {
	timer := time.NewTimer(p.limits.watch)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-p.life.Done():
	}
	p.mu.Lock()
	p.watching = false
	p.mu.Unlock()
	p.shrink()
}

func (p *pool) spares() int {
	if p.spare != nil || p.starting != nil {
		return 1
	}
	return 0
}

// endLocked ends the process in the background; p.mu is held.
func (p *pool) endLocked(l *living) {
	if l.idle != nil {
		l.idle.Stop()
	}
	p.ending.Go(l.end)
}

// drop ends a process that has waited for too long.
func (p *pool) drop(l *living) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := slices.Index(p.idle, l); i >= 0 {
		p.idle = slices.Delete(p.idle, i, i+1)
		p.endLocked(l)
	}
}

// has reports whether a process waits for the context's next task.
func (p *pool) has(contextID string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(p.idle, func(l *living) bool { return l.contextID == contextID })
}

// evict ends the process that waits for the context's next task, and waits for it.
func (p *pool) evict(contextID string) {
	p.mu.Lock()
	var found *living
	if i := slices.IndexFunc(p.idle, func(l *living) bool { return l.contextID == contextID }); i >= 0 {
		found = p.idle[i]
		p.idle = slices.Delete(p.idle, i, i+1)
	}
	p.mu.Unlock()
	if found != nil {
		found.idle.Stop()
		found.end()
	}
}

// prepare starts a spare process in the background when there is none, or none of the
// key.
func (p *pool) prepare(key func(context.Context) (string, error), start func(key string) (*living, error)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	// One that is kept for a context is worth more than the spare one.
	if p.closed || p.max < 2 || p.starting != nil || p.short() {
		return
	}
	starting := make(chan struct{})
	p.starting = starting
	p.ending.Go(func() {
		defer close(starting)
		k, err := key(p.life)
		p.mu.Lock()
		if p.spare != nil && (p.spare.key != k || p.spare.dead()) {
			p.endLocked(p.spare)
			p.spare = nil
		}
		there := p.spare != nil
		if there {
			p.starting = nil
		}
		p.mu.Unlock()
		if there {
			return
		}
		var l *living
		if err == nil {
			l, err = start(k)
		}
		p.mu.Lock()
		p.starting = nil
		switch {
		case p.closed && err != nil, errors.Is(err, ErrNotFound), errors.As(err, new(*Unusable)): // that is said before each claim
		case err != nil:
			p.log.Warn("cannot start a spare claude", "error", err)
		case p.closed:
			p.endLocked(l)
		default:
			p.spare = l
		}
		p.mu.Unlock()
		p.shrink()
	})
}

// close ends every process and waits until they are gone.
func (p *pool) close() {
	p.stop()
	p.mu.Lock()
	p.closed = true
	for _, l := range p.idle {
		p.endLocked(l)
	}
	p.idle = nil
	if p.spare != nil {
		p.endLocked(p.spare)
		p.spare = nil
	}
	p.mu.Unlock()
	p.ending.Wait()
}

// warmSession serves turns with a living process, and where there is none or it
// fails before anything was done, with a cold one.
type warmSession struct {
	*coldSession
	pool      *pool
	contextID string
	key       string
	mine      *living // in use by this run
	kind      string  // how it was come by: living, spare or new
}

var _ session = (*warmSession)(nil)

func (s *warmSession) turn(parent context.Context, prompt string) outcome {
	if parent.Err() != nil {
		return outcome{stopped: context.Cause(parent)}
	}
	if err := s.find(); err != nil {
		return outcome{startErr: err}
	}
	ctx, stop := context.WithCancelCause(parent)
	defer stop(nil)
	w := s.watch(stop)
	w.process = s.kind
	s.meterMu.Lock()
	// A living process counts from its beginning, like a resumed session.
	s.meter.resumed = s.resume != "" || s.mine.turns > 0
	s.meterMu.Unlock()
	out := s.mine.turn(ctx, s.config, w, prompt)
	if out.sessionID != "" {
		s.resume, s.fork = out.sessionID, false
	}
	failed := out.stopped != nil || out.result == nil
	if failed || !clean(out.result) {
		s.mine.end()
		s.mine = nil
	}
	if failed && parent.Err() == nil && !w.worked && out.repeatable(s.kind) {
		s.emit.warn("process_replaced", "claude's living process failed before it did anything; the turn is repeated with a new one")
		return s.coldSession.turn(parent, prompt)
	}
	return out
}

// repeatable reports an end that a process for this turn alone may mend: an older
// one died, or one did not keep to its turns.
func (o outcome) repeatable(kind string) bool {
	return errors.Is(o.stopped, errMisbehaved) || o.stopped == nil && kind != "new"
}

// find has a process for the next turn.
func (s *warmSession) find() (err error) {
	if s.mine != nil {
		if s.mine.unfit(s.pool.limits) == "" {
			s.kind = "living"
			return nil
		}
		s.close(false)
	}
	if s.mine, s.kind = s.pool.take(s.contextID, s.resume, s.key); s.mine != nil {
		return nil
	}
	s.kind = "new"
	s.mine, err = startLiving(s.config, s.path, s.turnArgs(), s.workdir, s.key)
	if err == nil {
		s.mine.contextID = s.contextID
	}
	return err
}

// close keeps the process for the context's next task, or ends it.
func (s *warmSession) close(keep bool) {
	if s.mine == nil {
		return
	}
	switch {
	case s.mine.strays() > 0:
		if n := s.mine.finish(s.config.AfterResult); n > 0 {
			s.emit.leftBehind(n)
		}
	case keep:
		s.pool.put(s.mine)
	default:
		s.mine.end()
	}
	s.mine = nil
}
