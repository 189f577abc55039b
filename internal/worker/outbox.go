package worker

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/client"
	"github.com/bloom-runtime/bloom/internal/timing"
)

// delivery is an outcome on its way to the server: a completion, a release or a suspension.
type delivery struct {
	Kind      string          `json:"kind"` // one of those below
	TaskID    string          `json:"task_id"`
	LeaseID   string          `json:"lease_id"`
	Request   string          `json:"request_id,omitempty"` // the request that created the task, for the log
	ContextID string          `json:"context_id,omitempty"` // of the run whose outcome this is; empty if the worker made it up
	At        int64           `json:"at"`                   // Unix milliseconds
	Body      json.RawMessage `json:"body"`
	// Status and Class are the completion's, for the log.
	Status bloom.Outcome    `json:"status,omitempty"`
	Class  bloom.ErrorClass `json:"error_class,omitempty"`
	// Substitute replaces a completion that the server refused as malformed.
	Substitute bool   `json:"substitute,omitempty"`
	Refused    string `json:"refused,omitempty"` // why the server refused it; set with its file in refused/
	TTL        int    `json:"ttl_seconds,omitempty"`
	malformed  bool   // refused for its content, not for its lease
	notMoved   bool   // refused, but its file could not be moved to refused/
	accepted   bool   // by the server, but not noted here yet
	memoryOnly bool   // not on disk: another delivery's file has its name
	keeper     *leaseKeeper
}

// Kinds of delivery.
const (
	deliveryCompletion = "complete"
	deliveryRelease    = "release"
	deliverySuspension = "suspend"
)

// outbox keeps outcomes until the server has acknowledged them. They are on disk
// before the first try and survive restarts, however long the server is unavailable.
// Outcomes that the server refuses are moved to the subfolder refused.
type outbox struct {
	dir    string
	client *client.Client
	log    *slog.Logger
	retry  client.Retry
	// settled is called, without any lock, when a lease's outcome is delivered
	// or refused.
	settled func(d delivery, delivered bool)
	// stateFailed is called when an outcome cannot be written to disk.
	stateFailed func(error)
	accepted    func(contextID, leaseID string) error // Config.Accepted
	clock       timing.Clock
	ttl         time.Duration // of leases whose own TTL is not known

	mu         sync.Mutex
	pending    map[string]*delivery // by lease
	lostLeases map[string]bool      // pending, but the server says the lease is lost
	retryNow   chan struct{}        // closed and replaced to retry all pending deliveries
	closed     bool                 // no more deliveries begin in this process
	wg         sync.WaitGroup
}

func newOutbox(dir string, c Config, log *slog.Logger, settled func(delivery, bool), stateFailed func(error)) *outbox {
	return &outbox{
		dir: dir, client: c.Client, log: log, settled: settled, stateFailed: stateFailed, accepted: c.Accepted, clock: c.Clock, ttl: c.LeaseTTL,
		retry:   client.Retry{Base: 250 * time.Millisecond, Max: 30 * time.Second},
		pending: map[string]*delivery{}, lostLeases: map[string]bool{}, retryNow: make(chan struct{}),
	}
}

// put writes an outcome to disk. When that fails, it is delivered from memory.
func (o *outbox) put(d *delivery) {
	if !d.memoryOnly {
		raw, err := json.Marshal(d)
		if err == nil {
			err = writeDurably(o.path(d.LeaseID), raw)
		}
		if err != nil {
			d.logger(o.log).Error("an outcome could not be written to disk; it is lost if this process ends before delivering it", "error", err)
			o.stateFailed(err)
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.pending[d.LeaseID] = d
	delete(o.lostLeases, d.LeaseID)
}

// has reports whether an outcome of the lease is pending.
func (o *outbox) has(leaseID string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.pending[leaseID] != nil
}

// held returns the leases whose outcome is pending, so that the claim renews them.
func (o *outbox) held() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	var ids []string
	for id := range o.pending {
		if !o.lostLeases[id] {
			ids = append(ids, id)
		}
	}
	return ids
}

// lost records that the server said the lease is lost, and reports whether that is new
// for a pending outcome. The outcome is still sent: the server takes it while no other
// worker has the task.
func (o *outbox) lost(leaseID string) (first bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.pending[leaseID] == nil || o.lostLeases[leaseID] {
		return false
	}
	o.lostLeases[leaseID] = true
	return true
}

// renewed records the lease's expiry in the answer to a claim sent at start.
func (o *outbox) renewed(leaseID string, start time.Time, expires int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if d := o.pending[leaseID]; d != nil && d.keeper != nil {
		d.keeper.renewedByClaim(start, expires)
	}
}

func (o *outbox) size() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.pending)
}

// close prevents new deliveries; those in progress continue.
func (o *outbox) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
}

// wake retries all pending deliveries now.
func (o *outbox) wake() {
	o.mu.Lock()
	defer o.mu.Unlock()
	close(o.retryNow)
	o.retryNow = make(chan struct{})
}

// deliver sends the outcome in the background until it is settled or ctx ends.
// Meanwhile it keeps the lease by heartbeats, as it does for a running task.
func (o *outbox) deliver(ctx context.Context, d *delivery, failures int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return // the next process delivers it
	}
	if d.keeper == nil {
		d.keeper = o.keeperOf(ctx, d)
	}
	o.wg.Go(func() {
		keeping, stop := context.WithCancel(ctx)
		defer stop()
		defer d.keeper.cancel(nil)
		o.wg.Go(func() { d.keeper.keep(keeping, o.clock.Now) })
		for n := failures; ; n++ {
			if n > 0 && !o.waitTurn(ctx, n) {
				return
			}
			if o.try(ctx, d) {
				return
			}
		}
	})
}

// keeperOf returns a keeper for the lease of an outcome from an earlier process.
func (o *outbox) keeperOf(ctx context.Context, d *delivery) *leaseKeeper {
	lease := bloom.Lease{ID: d.LeaseID, TaskID: d.TaskID, TTLSeconds: cmp.Or(d.TTL, int(o.ttl/time.Second))}
	k := newLeaseKeeper(ctx, o.client, bloom.LeasedTask{Task: bloom.Task{ID: d.TaskID}, Lease: lease}, o.log)
	k.finished, k.renewed = true, o.clock.Now()
	return k
}

func (o *outbox) waitTurn(ctx context.Context, n int) bool {
	o.mu.Lock()
	retryNow := o.retryNow
	o.mu.Unlock()
	t := time.NewTimer(o.retry.Wait(n-1, nil))
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-retryNow:
	case <-t.C:
	}
	return true
}

// try sends the outcome once, and reports whether it was delivered or refused.
func (o *outbox) try(ctx context.Context, d *delivery) (done bool) {
	var err error
	if d.Kind == deliveryRelease {
		var spec bloom.ReleaseSpec
		if err = json.Unmarshal(d.Body, &spec); err == nil {
			_, err = o.client.Release(ctx, d.TaskID, spec)
		}
	} else {
		if !d.accepted {
			err = o.send(ctx, d)
			d.accepted = err == nil
		}
		if err == nil && d.ContextID != "" && o.accepted != nil {
			err = o.accepted(d.ContextID, d.LeaseID)
		}
	}
	switch {
	case err == nil:
		o.forget(d)
		o.settled(*d, true)
		return true
	case refused(err):
		o.setAside(d, err)
		return true
	}
	if ctx.Err() == nil {
		d.logger(o.log).Warn("an outcome could not be delivered; it is kept and retried", "error", err)
	}
	return false
}

// send sends a completion or a suspension.
func (o *outbox) send(ctx context.Context, d *delivery) error {
	if d.Kind != deliverySuspension {
		_, err := o.client.CompleteRaw(ctx, d.TaskID, d.Body, true)
		return err
	}
	var spec bloom.SuspendSpec
	err := json.Unmarshal(d.Body, &spec)
	if err == nil {
		_, err = o.client.Suspend(ctx, d.TaskID, spec)
	}
	return err
}

func (o *outbox) forget(d *delivery) {
	if !d.memoryOnly {
		_ = os.Remove(o.path(d.LeaseID))
	}
	o.drop(d)
}

// drop removes the outcome from memory and leaves its file.
func (o *outbox) drop(d *delivery) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.pending, d.LeaseID)
	delete(o.lostLeases, d.LeaseID)
}
