package worker

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/client"
)

// delivery is an outcome on its way to the server: a completion or a release.
type delivery struct {
	Kind    string          `json:"kind"` // deliveryCompletion or deliveryRelease
	TaskID  string          `json:"task_id"`
	LeaseID string          `json:"lease_id"`
	Request string          `json:"request_id,omitempty"` // that created the task, for the log
	At      int64           `json:"at"`                   // Unix milliseconds
	Body    json.RawMessage `json:"body"`
	// Status and Class are the completion's, for the log.
	Status bloom.Outcome    `json:"status,omitempty"`
	Class  bloom.ErrorClass `json:"error_class,omitempty"`
	// Substitute stands for a completion that the server would not take.
	Substitute bool   `json:"substitute,omitempty"`
	Refused    string `json:"refused,omitempty"` // why, once it was set aside
	TTL        int    `json:"ttl_seconds,omitempty"`
	malformed  bool   // refused for its form, not for its lease
	unmoved    bool   // refused, and its file could not be set aside: it is where it was
	volatile   bool   // in memory only: another's file is in its place
	keeper     *leaseKeeper
}

// Kinds of delivery.
const (
	deliveryCompletion = "complete"
	deliveryRelease    = "release"
)

// outbox keeps outcomes until the server has acknowledged them: on disk before
// the first try, through restarts, however long the server is away. Outcomes
// that the server refuses are set aside where a person can find them.
type outbox struct {
	dir    string
	client *client.Client
	log    *slog.Logger
	retry  client.Retry
	// settled is called, without any lock, when a lease's outcome is delivered
	// or refused.
	settled func(l delivery, delivered bool)
	// unwritable is called when an outcome cannot be written to disk.
	unwritable func(error)
	clock      bloom.Clock
	ttl        time.Duration // of leases whose own is not known

	mu      sync.Mutex
	pending map[string]*delivery // by lease
	unheld  map[string]bool      // pending, but the server says the lease is lost
	kick    chan struct{}        // closed and replaced when the server is back
	closed  bool                 // no more deliveries begin in this life
	wg      sync.WaitGroup
}

func newOutbox(dir string, c Config, log *slog.Logger, settled func(delivery, bool), unwritable func(error)) *outbox {
	return &outbox{
		dir: dir, client: c.Client, log: log, settled: settled, unwritable: unwritable, clock: c.Clock, ttl: c.LeaseTTL,
		retry:   client.Retry{Base: 250 * time.Millisecond, Max: 30 * time.Second},
		pending: map[string]*delivery{}, unheld: map[string]bool{}, kick: make(chan struct{}),
	}
}

func (o *outbox) path(leaseID string) string {
	return filepath.Join(o.dir, filepath.Base(leaseID)+".json")
}

// load reads what an earlier life left. A file that cannot be read is set aside
// rather than dropped: it may be the only trace of somebody's work.
func (o *outbox) load() ([]*delivery, error) {
	paths, err := filepath.Glob(filepath.Join(o.dir, "*.json"))
	if err != nil {
		return nil, err
	}
	var deliveries []*delivery
	for _, path := range paths {
		raw, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("worker: read the outbox: %w", err)
		}
		l := new(delivery)
		if err := json.Unmarshal(raw, l); err != nil || l.LeaseID == "" || l.TaskID == "" {
			o.log.Error("an outcome on disk cannot be read and is set aside", "file", filepath.Base(path), "error", err)
			_ = os.Rename(path, filepath.Join(o.dir, "refused", filepath.Base(path)))
			continue
		}
		if own := o.path(l.LeaseID); own != path { // moved back by a person from where it was set aside
			if err := os.Rename(path, own); err != nil {
				return nil, fmt.Errorf("worker: read the outbox: %w", err)
			}
			l.Refused = ""
		}
		deliveries = append(deliveries, l)
		o.mu.Lock()
		o.pending[l.LeaseID] = l
		o.mu.Unlock()
	}
	return deliveries, nil
}

// put makes an outcome durable. When the disk refuses, it is kept in memory and
// delivered all the same: there is nothing better to be done for it.
func (o *outbox) put(l *delivery) {
	if !l.volatile {
		raw, err := json.Marshal(l)
		if err == nil {
			err = writeDurably(o.path(l.LeaseID), raw)
		}
		if err != nil {
			l.logTo(o.log).Error("an outcome could not be written to disk; it would be lost if this process died before delivering it", "error", err)
			o.unwritable(err)
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.pending[l.LeaseID] = l
	delete(o.unheld, l.LeaseID)
}

// has reports whether an outcome of the lease waits.
func (o *outbox) has(leaseID string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.pending[leaseID] != nil
}

// held lists the leases whose outcome waits, so that they are renewed.
func (o *outbox) held() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	var ids []string
	for id := range o.pending {
		if !o.unheld[id] {
			ids = append(ids, id)
		}
	}
	return ids
}

// lost says that the server no longer counts the lease as ours. Its outcome is
// still tried: it is welcome while nobody else has the task.
// first tells that it is said of a waiting outcome for the first time.
func (o *outbox) lost(leaseID string) (first bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.pending[leaseID] == nil || o.unheld[leaseID] {
		return false
	}
	o.unheld[leaseID] = true
	return true
}

// renewed says that a claim begun at start was answered with the lease's expiry.
func (o *outbox) renewed(leaseID string, start time.Time, expires int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if l := o.pending[leaseID]; l != nil && l.keeper != nil {
		l.keeper.claimed(start, expires)
	}
}

func (o *outbox) size() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.pending)
}

// close begins no more deliveries; those under way go on.
func (o *outbox) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
}

// wake makes all waiting deliveries try now.
func (o *outbox) wake() {
	o.mu.Lock()
	defer o.mu.Unlock()
	close(o.kick)
	o.kick = make(chan struct{})
}

// deliver tries for as long as ctx allows, in the background. Meanwhile the lease is
// kept as a running task's is, whatever the polls do.
func (o *outbox) deliver(ctx context.Context, l *delivery, failures int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return // it stays on disk for the next life
	}
	if l.keeper == nil {
		l.keeper = o.keeperOf(ctx, l)
	}
	o.wg.Go(func() {
		keeping, stop := context.WithCancel(ctx)
		defer stop()
		defer l.keeper.cancel(nil)
		o.wg.Go(func() { l.keeper.keep(keeping, o.clock.Now) })
		for n := failures; ; n++ {
			if n > 0 && !o.waitTurn(ctx, n) {
				return
			}
			if o.try(ctx, l) {
				return
			}
		}
	})
}

// keeperOf keeps the lease of an outcome whose work this life has not done.
func (o *outbox) keeperOf(ctx context.Context, l *delivery) *leaseKeeper {
	lease := bloom.Lease{ID: l.LeaseID, TaskID: l.TaskID, TTLSeconds: cmp.Or(l.TTL, int(o.ttl/time.Second))}
	h := newLeaseKeeper(ctx, o.client, bloom.LeasedTask{Task: bloom.Task{ID: l.TaskID}, Lease: lease}, o.log)
	h.over, h.renewed = true, o.clock.Now()
	return h
}

func (o *outbox) waitTurn(ctx context.Context, n int) bool {
	o.mu.Lock()
	kick := o.kick
	o.mu.Unlock()
	t := time.NewTimer(o.retry.Wait(n-1, nil))
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-kick:
	case <-t.C:
	}
	return true
}

// try makes one delivery; done says that there is no more to be tried.
func (o *outbox) try(ctx context.Context, l *delivery) (done bool) {
	var err error
	if l.Kind == deliveryRelease {
		var spec bloom.ReleaseSpec
		if err = json.Unmarshal(l.Body, &spec); err == nil {
			_, err = o.client.Release(ctx, l.TaskID, spec)
		}
	} else {
		_, err = o.client.CompleteRaw(ctx, l.TaskID, l.Body, true)
	}
	switch {
	case err == nil:
		o.forget(l)
		o.settled(*l, true)
		return true
	case refused(err):
		o.setAside(l, err)
		return true
	}
	if ctx.Err() == nil {
		l.logTo(o.log).Warn("an outcome could not be delivered yet; it is kept and tried again", "error", err)
	}
	return false
}

// refused tells a no of the server's from trouble that may pass. A wrong key is
// trouble that may pass: keys are rotated by people.
func refused(err error) bool {
	switch bloom.KindOf(err) { //nolint:exhaustive // every other kind may pass
	case bloom.KindInvalid, bloom.KindNotFound, bloom.KindConflict, bloom.KindTooLarge:
		return !client.Temporary(err)
	}
	return false
}

func (o *outbox) forget(l *delivery) {
	if !l.volatile {
		_ = os.Remove(o.path(l.LeaseID))
	}
	o.drop(l)
}

// drop delivers no more, and leaves what is on disk.
func (o *outbox) drop(l *delivery) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.pending, l.LeaseID)
	delete(o.unheld, l.LeaseID)
}

// setAside keeps what the server will not take, with its reason. A completion
// that it finds malformed is followed by one it must understand: the task would
// otherwise be run again, to the same end.
func (o *outbox) setAside(l *delivery, reason error) {
	aside := *l
	aside.Refused, aside.malformed = reason.Error(), malformed(reason)
	place := filepath.Join(o.dir, "refused", fmt.Sprintf("%s-%d.json", filepath.Base(l.LeaseID), l.At))
	moved, wrote := o.moveAside(&aside, place)
	log := l.logTo(o.log).With("reason", reason)
	switch {
	case moved == nil && wrote == nil:
		log.Error("the server refused an outcome; it is set aside", "file", place)
	case moved == nil:
		log.Error("the server refused an outcome; it is set aside without the reason, which could not be written", "file", place, "error", wrote)
	case aside.volatile || !there(o.path(l.LeaseID)):
		log.Error("the server refused an outcome; it is lost, since it could never be written to disk", "error", wrote)
	default:
		aside.unmoved = true
		log.Error("the server refused an outcome; it could not be set aside and stays in the outbox", "file", o.path(l.LeaseID), "error", moved)
	}
	o.drop(l)
	o.settled(aside, false)
}

// moveAside moves an outcome's file first, which needs no room, and then writes the
// reason into it. A file that cannot be moved is written anew, and removed where it was
// only when that has worked.
func (o *outbox) moveAside(aside *delivery, place string) (moved, wrote error) {
	if moved = fs.ErrNotExist; !aside.volatile {
		_ = os.MkdirAll(filepath.Dir(place), 0o700)
		moved = os.Rename(o.path(aside.LeaseID), place)
	}
	raw, wrote := json.MarshalIndent(aside, "", "  ")
	if wrote == nil {
		wrote = writeDurably(place, raw)
	}
	if moved != nil && wrote == nil {
		if !aside.volatile {
			_ = os.Remove(o.path(aside.LeaseID))
		}
		moved = nil
	}
	return moved, wrote
}

func there(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// malformed reports whether a refusal was about the completion's form.
func malformed(err error) bool {
	return errors.Is(err, bloom.Invalid("")) || bloom.KindOf(err) == bloom.KindTooLarge
}
