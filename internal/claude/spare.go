package claude

import (
	"context"
	"errors"
)

// prepare starts a spare process in the background unless there is one with the same key.
func (p *pool) prepare(key func(context.Context) (string, error), start func(key string) (*warmProcess, error)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	// If only one process may be kept, keep it for a context.
	if p.closed || p.max < 2 || p.starting != nil || p.memoryLow() {
		return
	}
	starting := make(chan struct{})
	p.starting = starting
	p.background.Go(func() {
		defer close(starting)
		k, err := key(p.ctx)
		p.mu.Lock()
		if p.spare != nil && (p.spare.key != k || p.spare.exited()) {
			if p.spare.key == k && p.spare.unclaimed.Load() {
				p.refused = k // this claude does not know the option
			}
			p.stopLocked(p.spare)
			p.spare = nil
		}
		exists := p.spare != nil || err == nil && k == p.refused
		if exists {
			p.starting = nil
		}
		p.mu.Unlock()
		if exists {
			return
		}
		var l *warmProcess
		if err == nil {
			l, err = start(k)
		}
		p.mu.Lock()
		p.starting = nil
		switch {
		case p.closed && err != nil, errors.Is(err, ErrNotFound), errors.As(err, new(*Unusable)): // logged when the worker calls Usable
		case err != nil:
			p.log.Warn("cannot start a spare claude process", "error", err)
		case p.closed:
			p.stopLocked(l)
		default:
			p.spare = l
		}
		p.mu.Unlock()
		p.shrink()
	})
}

func (p *pool) spares() int {
	if p.spare != nil || p.starting != nil {
		return 1
	}
	return 0
}

// refuse makes prepare start no more spare processes with the key, because one could not be
// claimed.
func (p *pool) refuse(key string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refused = key
}
