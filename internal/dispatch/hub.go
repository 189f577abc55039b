package dispatch

import (
	"slices"
	"sync"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/store/contract"
	"github.com/bloom-runtime/bloom/internal/timing"
)

// hub offers queued tasks to long polls. It works on hints: a poll that is notified claims from the
// store, and polls also claim from time to time without being notified.
//
// A newly queued task is offered to one poll whose worker has its labels: the one that has waited
// longest. A poll that claims and does not get the task passes the offer on to the next one. When
// all have tried, the offer is repeated once, after the grace period in which the task is reserved
// for the worker of its context.
type hub struct {
	clock timing.Clock

	mu     sync.Mutex
	polls  []*poll           // longest waiting first
	offers map[string]*offer // by task
	orders map[string]orders // by worker: what its last answer contained
}

// poll is one long poll.
type poll struct {
	workerID, instanceID string
	wantsWork            bool
	signal               chan struct{}

	// The hub's mutex guards the rest.
	labels []string
	known  bool // labels is set; until then any task may match
	ended  bool // superseded by a newer poll
	offers []*offer
}

// offer is a queued task that is being offered.
type offer struct {
	taskID   string
	labels   []string
	tried    map[*poll]bool
	repeated bool
	timer    *time.Timer // nil unless it was delayed
}

// orders is what the last answer to a worker's process ordered. Orders stay in force
// for a while, and must not make every poll return at once.
type orders struct {
	instanceID string
	cancel     []string
	drain      bool
}

const (
	// MaxPolls limits the waiting polls of a worker: a worker needs one, and a stolen key must not
	// open connections without limit.
	MaxPolls = 8
	// maxOffers limits the offers, most of which are of delayed tasks. Beyond it, regular claims
	// find a task a few seconds late.
	maxOffers = 100_000
	// maxTries limits how many polls get the same offer. A task that is reserved for one worker
	// must not wake a thousand in turn.
	maxTries = 32
)

func newHub(clock timing.Clock) *hub {
	return &hub{clock: clock, offers: map[string]*offer{}, orders: map[string]orders{}}
}

// join adds a poll. It ends an older one of the same process: its caller is gone, or would get what
// the newer poll asks for.
func (h *hub) join(r contract.ClaimRequest) *poll {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, old := range h.polls {
		if old.workerID == r.WorkerID && old.instanceID == r.InstanceID && r.InstanceID != "" {
			old.end()
		}
	}
	p := &poll{workerID: r.WorkerID, instanceID: r.InstanceID, wantsWork: r.Max > 0, signal: make(chan struct{}, 1)}
	h.polls = append(h.polls, p)
	return p
}

func (p *poll) end() {
	p.ended = true
	notify(p.signal)
}

// take returns the offers of p, before it claims. ended means that a newer poll has replaced p.
func (h *hub) take(p *poll) (offers []*offer, ended bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if p.ended {
		return nil, true
	}
	offers, p.offers = p.offers, nil
	return offers, false
}

// claimed processes the result of a claim after take: it passes the offers of other tasks on, and
// reports whether the result has an order that is new to the worker's process.
func (h *hub) claimed(p *poll, offers []*offer, res bloom.ClaimResult, err error) (ordered bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.passOn(p, slices.DeleteFunc(offers, func(o *offer) bool {
		return slices.ContainsFunc(res.Leases, func(l bloom.LeasedTask) bool { return l.Task.ID == o.taskID })
	}))
	if err != nil {
		return false
	}
	if !p.known {
		if same := h.waiting(p.workerID); len(same) >= MaxPolls {
			same[0].end()
		}
	}
	p.labels, p.known = res.Labels, true
	before := h.orders[p.workerID]
	if before.instanceID != p.instanceID {
		before = orders{}
	}
	if len(res.Cancel) == 0 && !res.Drain {
		delete(h.orders, p.workerID)
		return false
	}
	h.orders[p.workerID] = orders{instanceID: p.instanceID, cancel: res.Cancel, drain: res.Drain}
	return res.Drain && !before.drain ||
		slices.ContainsFunc(res.Cancel, func(id string) bool { return !slices.Contains(before.cancel, id) })
}

// leave removes a poll and passes its offers on.
func (h *hub) leave(p *poll) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.polls = slices.DeleteFunc(h.polls, func(other *poll) bool { return other == p })
	h.passOn(p, p.offers)
}

func (h *hub) passOn(from *poll, offers []*offer) {
	for _, o := range offers {
		o.tried[from] = true
		h.deliver(o)
	}
}

// waiting returns the polls of a worker, or of all if that is empty, whose claims the store accepts.
func (h *hub) waiting(workerID string) (polls []*poll) {
	for _, p := range h.polls {
		if p.known && !p.ended && (workerID == "" || p.workerID == workerID) {
			polls = append(polls, p)
		}
	}
	return polls
}

// changed processes committed changes. It never blocks.
func (h *hub) changed(changes []bloom.Change) {
	h.mu.Lock()
	defer h.mu.Unlock()
	workers := map[string]bool{} // that were given a lease, lost one, or must cancel or drain
	for _, c := range changes {
		if c.Kind == bloom.ChangeTask {
			h.taskChanged(c)
		}
		if c.Kind == bloom.ChangeTask || c.Kind == bloom.ChangeWorker {
			workers[c.WorkerID] = c.WorkerID != ""
		}
	}
	for _, p := range h.polls {
		if workers[p.workerID] {
			notify(p.signal)
		}
	}
}

func (h *hub) taskChanged(c bloom.Change) {
	if old := h.offers[c.TaskID]; old != nil && old.timer != nil {
		old.timer.Stop()
	}
	delete(h.offers, c.TaskID)
	if c.TaskStatus != bloom.TaskQueued || len(h.offers) >= maxOffers {
		return
	}
	o := &offer{taskID: c.TaskID, labels: c.Labels, tried: map[*poll]bool{}}
	h.offers[c.TaskID] = o
	if wait := time.UnixMilli(c.RunAt).Sub(h.clock.Now()); wait > 0 {
		h.later(o, wait)
		return
	}
	h.deliver(o)
}

// deliver gives an offer to the poll that has waited longest among those that match, have not
// tried, and have the fewest offers.
func (h *hub) deliver(o *offer) {
	if h.offers[o.taskID] != o {
		return // the task was claimed, or there is a newer offer
	}
	var to *poll
	for _, p := range h.polls {
		if p.fits(o) && !o.tried[p] && (to == nil || len(p.offers) < len(to.offers)) {
			to = p
		}
		if to != nil && len(to.offers) == 0 {
			break
		}
	}
	switch {
	case to != nil && len(o.tried) < maxTries:
		to.offers = append(to.offers, o)
		notify(to.signal)
	case !o.repeated:
		o.repeated = true
		h.later(o, contract.StickyGrace+10*time.Millisecond)
	default:
		delete(h.offers, o.taskID)
	}
}

func (p *poll) fits(o *offer) bool {
	return p.wantsWork && !p.ended && (!p.known || bloom.Capabilities{Labels: p.labels}.Carries(o.labels))
}

// later delivers an offer again after a time.
func (h *hub) later(o *offer, after time.Duration) {
	o.timer = time.AfterFunc(after, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		clear(o.tried)
		h.deliver(o)
	})
}
