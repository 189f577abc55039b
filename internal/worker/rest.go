package worker

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/bloom-runtime/bloom"
)

// This file is how somebody else's order to take no more tasks, the control plane's,
// comes to the server and is kept over the worker's lives.

// Rest orders the worker to take no more tasks, or lifts the order; unlike after
// Drain it lives on, and what runs goes on. The runtime is told of an order, and has
// it as if it had given it; when it is lifted there, it is lifted here too. Of the
// lifting it is not told: it would not take a worker's word for it, and hears it
// from whoever gave the order. An order stands over the end of the process.
func (w *Worker) Rest(o bloom.DrainOrder) {
	w.mu.Lock()
	changed := w.resting != o.Drain || o.Drain && o.Number > w.restOrder
	w.resting, w.restOrder, w.restTold = o.Drain, o.Number, true
	if changed {
		w.saidRest = false // another order than the one that was told, if any was
		w.noteRest()
	}
	w.mu.Unlock()
	switch {
	case !changed:
		return
	case o.Drain:
		w.log.Info("ordered to rest: no new tasks are taken until the order is lifted")
	default:
		w.log.Info("the order to rest was lifted")
	}
	w.interrupt()
}

// recallRest takes up the order of an earlier life, unless there was word since that
// it is over, or of another one. w.mu is held.
func (w *Worker) recallRest() {
	n, ok := w.state.rested()
	switch {
	case !ok:
	case !w.restTold:
		w.resting, w.saidRest, w.restOrder = true, n.said, n.number
	case w.resting && w.restOrder == n.number:
		w.saidRest = n.said
	}
	w.noteRest()
}

// standsAt takes in how the order to drain stands at the server after it was told
// what spec says: it was lifted there when the server had it and shows none.
func (w *Worker) standsAt(spec bloom.WorkerSpec, draining bool) {
	w.mu.Lock()
	if spec.Draining != nil && w.resting && w.restOrder == spec.DrainOrder {
		w.saidRest = true // else there was word meanwhile, which is still to be told
	}
	lifted := !draining && w.resting && w.saidRest
	if lifted {
		w.resting, w.saidRest = false, false
	}
	if lifted || spec.Draining != nil {
		w.noteRest()
	}
	w.orders = draining
	w.mu.Unlock()
	if lifted {
		w.log.Info("the order to rest was lifted at the server")
	}
}

// noteRest keeps how the order stands for the next life. Before Run has the folder
// there is nothing to keep it in. w.mu is held.
func (w *Worker) noteRest() {
	switch {
	case w.state == nil:
	case w.resting:
		w.state.rest(restNote{number: w.restOrder, said: w.saidRest})
	default:
		w.state.resume()
	}
}

// restNote is an order to rest as it is kept in a file.
type restNote struct {
	number int64
	said   bool // the server has the order by this worker's word
}

// unsaidMark follows the number of an order that the server is still to be told of.
const unsaidMark = "unsaid"

// rested is the order that an earlier life left; ok is false when there is none.
func (s *state) rested() (n restNote, ok bool) {
	raw, err := os.ReadFile(s.restPath())
	if err != nil {
		return n, false
	}
	number, unsaid := strings.CutSuffix(strings.TrimSpace(string(raw)), " "+unsaidMark)
	n.number, err = strconv.ParseInt(number, 10, 64)
	n.said = !unsaid
	return n, err == nil
}

// rest notes it for the next life. Should the note be lost, the order stays until
// somebody lifts it at the server.
func (s *state) rest(n restNote) {
	text := strconv.FormatInt(n.number, 10)
	if !n.said {
		text += " " + unsaidMark
	}
	_ = writeDurably(s.restPath(), []byte(text+"\n"))
}

// resume forgets it.
func (s *state) resume() { _ = os.Remove(s.restPath()) }

func (s *state) restPath() string { return filepath.Join(s.dir, "resting") }
