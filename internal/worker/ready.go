package worker

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/bloom-runtime/bloom"
)

// readyPace is how often a worker that cannot run tasks checks whether it can.
const readyPace = 5 * time.Second

// checkReady checks whether tasks can be run, and registers again when what the
// last registration reported has changed.
func (w *Worker) checkReady(ctx context.Context) error {
	w.checkState()
	w.readAgents(ctx)
	err := w.notReady(ctx)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	w.mu.Lock()
	changed := errorText(err) != errorText(w.readyErr)
	w.readyErr = err
	stale := w.registrationStale()
	w.mu.Unlock()
	switch {
	case !changed:
	case err != nil:
		w.log.Error("not claiming tasks: claude is unavailable", "error", err)
	default:
		w.log.Info("claiming tasks again: claude is available")
	}
	if !stale {
		return nil
	}
	return w.register(ctx, false)
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// ready reports whether tasks can be run here. It requires w.mu.
func (w *Worker) ready() bool { return w.readyErr == nil && w.stateErr == nil }

// stateFailed records that the state folder could not be written. The worker claims
// nothing until it can, because it could neither note that a task began nor keep its
// outcome.
func (w *Worker) stateFailed(err error) {
	w.mu.Lock()
	first := w.stateErr == nil
	w.stateErr = err
	w.mu.Unlock()
	if first {
		fix := "free disk space or correct its permissions, and the worker resumes"
		if _, gone := os.Stat(w.cfg.StateDir); errors.Is(gone, fs.ErrNotExist) {
			fix = "it was removed: restart the worker"
		}
		w.log.Error("not claiming tasks: the state folder cannot be written; "+fix, "folder", w.cfg.StateDir, "error", err)
		w.interrupt()
	}
}

// checkState checks whether a state folder that could not be written now can.
func (w *Worker) checkState() {
	w.mu.Lock()
	before := w.stateErr
	w.mu.Unlock()
	if before == nil {
		return
	}
	err := w.state.probe()
	w.mu.Lock()
	w.stateErr = err
	w.mu.Unlock()
	if err == nil {
		w.log.Info("claiming tasks again: the state folder can be written")
	}
}

// registrationStale reports whether something has changed since the last registration.
// It requires w.mu.
func (w *Worker) registrationStale() bool {
	drain, reported := w.controlDrain, w.reportedDrain
	return !slices.Equal(w.agents, w.reportedAgents) || w.setup != w.reportedSetup || (w.readyErr == nil) != w.reportedReady || w.paused() != w.reportedPause || (w.stateErr != nil) != w.reportedStateErr || drain != nil && (reported == nil || *reported != *drain)
}

// agentsEvery is how often the names of the agents are read again: there may be thousands of files.
const agentsEvery = 30 * time.Second

func (w *Worker) readAgents(ctx context.Context) {
	if w.cfg.Agents == nil || !w.agentsRead.IsZero() && w.now().Sub(w.agentsRead) < agentsEvery {
		return
	}
	agents := w.cfg.Agents(ctx)
	var setup bloom.WorkerSetup
	if w.cfg.Setup != nil {
		setup = w.cfg.Setup(ctx)
	}
	w.mu.Lock()
	w.agents, w.setup, w.agentsRead = agents, setup, w.now()
	w.mu.Unlock()
}

func (w *Worker) notReady(ctx context.Context) error {
	if w.cfg.Ready == nil {
		return nil
	}
	return w.cfg.Ready(ctx)
}
