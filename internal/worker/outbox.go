package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
	malformed  bool   // refused for its form, not for its lease
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

	mu      sync.Mutex
	pending map[string]*delivery // by lease
	unheld  map[string]bool      // pending, but the server says the lease is lost
	kick    chan struct{}        // closed and replaced when the server is back
	closed  bool                 // no more deliveries begin in this life
	wg      sync.WaitGroup
}

func newOutbox(dir string, c *client.Client, log *slog.Logger, settled func(delivery, bool)) *outbox {
	return &outbox{
		dir: dir, client: c, log: log, settled: settled,
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
	raw, err := json.Marshal(l)
	if err == nil {
		err = writeDurably(o.path(l.LeaseID), raw)
	}
	if err != nil {
		l.logTo(o.log).Error("an outcome could not be written to disk; it would be lost if this process died before delivering it", "error", err)
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

// deliver tries for as long as ctx allows, in the background.
func (o *outbox) deliver(ctx context.Context, l *delivery, failures int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return // it stays on disk for the next life
	}
	o.wg.Go(func() {
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
	_ = os.Remove(o.path(l.LeaseID))
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
	raw, err := json.MarshalIndent(aside, "", "  ")
	place := filepath.Join(o.dir, "refused", fmt.Sprintf("%s-%d.json", filepath.Base(l.LeaseID), l.At))
	if err == nil {
		err = writeDurably(place, raw)
	}
	if err != nil {
		l.logTo(o.log).Error("a refused outcome could not be kept", "error", err)
	}
	l.logTo(o.log).Error("the server refused an outcome; it is set aside", "reason", reason, "file", place)
	o.forget(l)
	o.settled(aside, false)
}

// malformed reports whether a refusal was about the completion's form.
func malformed(err error) bool {
	return errors.Is(err, bloom.Invalid("")) || bloom.KindOf(err) == bloom.KindTooLarge
}
