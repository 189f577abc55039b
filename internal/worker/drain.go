package worker

// FollowControlPlane sets whether the control plane drains the worker. While it does,
// the worker claims nothing, whatever the runtime says. Unlike after Stop, the worker and
// its running tasks continue. The next registration reports it to the runtime, which
// then shows the worker as draining. It is not stored: after a restart the control plane
// sends it again.
func (w *Worker) FollowControlPlane(drain bool) {
	w.mu.Lock()
	was := w.controlDrain != nil && *w.controlDrain
	w.controlDrain = &drain
	report := w.registrationStale()
	w.mu.Unlock()
	switch {
	case drain && !was:
		w.log.Info("drained at the control plane: no new tasks are taken until it undrains this worker")
	case was && !drain:
		w.log.Info("undrained at the control plane")
	}
	if report || was != drain {
		w.interrupt()
	}
}

// followServer sets whether the server drains the worker.
func (w *Worker) followServer(drain bool) (changed bool) {
	w.mu.Lock()
	changed = w.serverDrain != drain
	w.serverDrain = drain
	w.mu.Unlock()
	switch {
	case changed && drain:
		w.log.Info("drained at the server: no new tasks are taken until the worker is undrained")
	case changed:
		w.log.Info("undrained at the server")
	}
	return changed
}
