package worker

// Rest says whether the control plane drains the worker. While it does, nothing new
// is claimed, whatever the runtime says; unlike after Drain the worker lives on, and
// what runs goes on. The runtime is told with the next registration, so that it shows
// the worker as draining. Nothing is kept for the next life, which is told anew.
func (w *Worker) Rest(drain bool) {
	w.mu.Lock()
	changed := w.resting != drain
	w.resting, w.heard = drain, true
	news := w.unsaid()
	w.mu.Unlock()
	switch {
	case changed && drain:
		w.log.Info("drained at the control plane: no new tasks are taken until it undrains this worker")
	case changed:
		w.log.Info("undrained at the control plane")
	}
	if changed || news {
		w.interrupt()
	}
}
