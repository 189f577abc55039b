package claude

import (
	"context"
	"errors"
)

// warmSession runs turns in a warm process. If that fails before claude began to answer,
// it repeats the turn in a process of its own.
type warmSession struct {
	*coldSession
	pool      *pool
	contextID string
	key       string
	spareKey  string       // of a spare process that it can use; empty for none
	current   *warmProcess // in use by this run
	kind      string       // of the current process: living, spare or new
}

var _ session = (*warmSession)(nil)

func (s *warmSession) turn(parent context.Context, prompt string) outcome {
	if parent.Err() != nil {
		return outcome{stopped: context.Cause(parent)}
	}
	if err := s.find(parent); err != nil {
		return outcome{startErr: err}
	}
	if s.current == nil {
		return outcome{stopped: context.Cause(parent)}
	}
	ctx, stop := context.WithCancelCause(parent)
	defer stop(nil)
	w := s.watch(stop)
	w.process = s.kind
	s.meterMu.Lock()
	// A warm process reports its usage since its start, as a resumed session does.
	s.meter.resumed = s.resume != "" || s.current.turns > 0
	s.meterMu.Unlock()
	out := s.current.turn(ctx, s.config, w, prompt)
	if out.sessionID != "" {
		s.resume, s.fork = out.sessionID, false
	}
	failed := out.stopped != nil || out.result == nil
	if failed || !isSuccess(out.result) || len(out.background) > 0 {
		s.current.end()
		s.current = nil
	}
	if failed && parent.Err() == nil && !out.worked && out.repeatable(s.kind) {
		s.emit.warn("process_replaced", "claude's process failed before it began to answer; repeating the turn in a new one")
		return s.coldSession.turn(parent, prompt)
	}
	return out
}

// repeatable reports whether a new process may succeed: an older one died, or its output
// did not fit the turn.
func (o outcome) repeatable(kind string) bool {
	return errors.Is(o.stopped, errProtocol) || errors.Is(o.stopped, errToolOffered) || o.stopped == nil && kind != "new"
}

// find chooses or starts the process for the next turn. There is none if ctx ends first.
func (s *warmSession) find(ctx context.Context) (err error) {
	if s.current != nil {
		if s.current.replaceReason(s.pool.limits) == "" {
			s.kind = "living"
			return nil
		}
		s.close(false)
	}
	s.current, s.kind = s.pool.take(ctx, s.contextID, s.resume, s.key, s.spareKey)
	if s.current != nil && s.current.unclaimed.Load() {
		s.claimSpare(ctx)
	}
	if s.current != nil || ctx.Err() != nil {
		return nil
	}
	s.kind = "new"
	s.current, err = startProcess(s.config, s.path, s.turnArgs(), s.workdir, s.key)
	if err == nil {
		s.current.contextID = s.contextID
	}
	return err
}

// close keeps the process for the context's next task, or stops it.
func (s *warmSession) close(keep bool) {
	if s.current == nil {
		return
	}
	switch {
	case s.current.leftovers() > 0:
		if n := s.current.finish(s.config.AfterResult); n > 0 {
			s.emit.leftBehind(n)
		}
	case keep:
		s.pool.put(s.current)
	default:
		s.current.end()
	}
	s.current = nil
}
