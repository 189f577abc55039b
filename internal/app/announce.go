package app

import (
	"context"
	"crypto/tls"
	"fmt"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/membridge"
	"github.com/bloom-runtime/bloom/internal/membridge/announce"
	"github.com/bloom-runtime/bloom/internal/membridge/mbclient"
)

// MembridgeAccount is the control plane that a worker registers with besides the runtime, and its
// credentials. The agent key is sufficient; the admin key is used without one.
type MembridgeAccount struct {
	URL      string      // empty: unknown
	TLS      *tls.Config // nil: the system's root certificates
	AgentKey string
	AdminKey string
}

// client returns a client of membridge for the agent that owns the token.
func (a MembridgeAccount) client(token string) (*mbclient.Client, error) {
	o := mbclient.Options{URL: a.URL, TLS: a.TLS, AgentKey: a.AgentKey, Token: token, AddressPolicy: membridge.DefaultDialPolicy}
	if o.AgentKey == "" {
		o.Key = a.AdminKey
	}
	if o.Key == "" {
		o.KeyName = "MEMBRIDGE_AGENT_KEY" // the key that a worker should have
	}
	c, err := mbclient.New(o)
	if err != nil {
		return nil, fmt.Errorf("membridge's address: %w", err)
	}
	return c, nil
}

// keyless reports whether the operator configured neither a membridge nor a key for one.
func (a MembridgeAccount) keyless() bool { return a.URL == "" && a.AgentKey == "" && a.AdminKey == "" }

// newAnnouncer returns the announcer that registers the worker with membridge.
func (w *Worker) newAnnouncer() *announce.Announcer {
	cfg := announce.Config{
		Client: w.bridge, Interval: w.cfg.Run.AnnounceEvery, Log: w.log.With("worker", w.cfg.Run.Name),
		Registration: func() mbclient.Registration {
			status, can := w.selfReport()
			return w.memory.named(mbclient.Registration{
				Name: w.cfg.Run.Name, Status: status, Capabilities: can, IPAddrs: w.about.IPAddrs,
				AgentVersion: w.about.AgentVersion, OSInfo: w.about.OSInfo, InstallMethod: w.about.InstallMethod,
			})
		},
		Heartbeat: func() mbclient.Heartbeat {
			status, can := w.selfReport()
			return w.memory.described(mbclient.Heartbeat{Status: status, Capabilities: &can, Load: &mbclient.Load{Running: w.running()}, IPAddrs: addresses()})
		},
		OnDrain: w.followDrain, Execute: w.memory.carry, Keyless: w.cfg.Membridge.keyless(),
	}
	if w.cfg.URL == "" {
		cfg.OnRuntimeURL = w.moved
	}
	return announce.New(cfg)
}

// selfReport returns what membridge is sent. The status of a worker that cannot reach the runtime
// is unknown, not online, and of one that cannot write its state folder error: neither should get
// work.
func (w *Worker) selfReport() (bloom.WorkerStatus, bloom.Capabilities) {
	can := w.capabilities()
	can.ClaudeCLI = w.runner.Usable(context.Background()) == nil
	inner := w.inner.Load()
	if inner == nil {
		return bloom.WorkerUnknown, can
	}
	switch s := inner.Status(); {
	case s.LastError != "":
		return bloom.WorkerUnknown, can
	case s.StateError != "":
		return bloom.WorkerError, can
	}
	return bloom.WorkerOnline, can
}

func (w *Worker) running() int {
	if inner := w.inner.Load(); inner != nil {
		return inner.Status().Running
	}
	return 0
}

// followDrain records whether membridge drains the worker, even before the runtime is known.
func (w *Worker) followDrain(drain bool) {
	w.drainMu.Lock()
	defer w.drainMu.Unlock()
	if w.drain == nil {
		close(w.heard)
	}
	w.drain = &drain
	w.forwardDrain()
}

// forwardDrain forwards it to the inner worker, when both are known. It requires w.drainMu.
func (w *Worker) forwardDrain() {
	if inner := w.inner.Load(); inner != nil && w.drain != nil {
		inner.FollowControlPlane(*w.drain)
	}
}

// drainWait is how long a starting worker waits for membridge to report whether the worker is
// drained.
const drainWait = 3 * time.Second

// awaitDrain waits for membridge's first response, so that a worker that was drained while it was
// down claims nothing. When membridge is silent for longer, the worker starts with the last state
// known to the runtime. It does not wait for a membridge whose address only the runtime knows.
func (w *Worker) awaitDrain(ctx context.Context) {
	if w.cfg.Membridge.URL == "" {
		return
	}
	timer := time.NewTimer(drainWait)
	defer timer.Stop()
	select {
	case <-w.heard:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// moved follows the runtime to the address that membridge reports.
func (w *Worker) moved(address string) {
	if address == "" {
		w.log.Warn("membridge does not know the runtime's address; start membridge or this worker with --runtime-url")
		return
	}
	if loopbackURL(address) && !loopbackURL(w.cfg.Membridge.URL) {
		w.log.Warn("membridge reports a loopback address for the runtime, which only its own machine can reach; start membridge or this worker with a --runtime-url that is reachable from here",
			"url", address)
		return
	}
	if err := w.route.setAddress(address); err != nil {
		w.log.Error("membridge reports an invalid address for the runtime", "error", err)
		return
	}
	w.log.Info("membridge reported the runtime's address", "url", address)
}

// invitedTo registers with the membridge that the runtime reports, if possible: a loopback address
// is useless on another machine, and a membridge that others can reach requires a key. The admin
// key is sent only to an address that the operator configured.
func (w *Worker) invitedTo(address string) {
	local := loopbackURL(address)
	if local && !loopbackURL(w.cfg.URL) || !local && w.cfg.Membridge.AgentKey == "" {
		w.log.Debug("this worker cannot use the membridge that the runtime reports", "url", address)
		return
	}
	if err := w.bridge.Configure(address, ""); err != nil {
		w.log.Error("the runtime reports an invalid address for membridge", "error", err)
		return
	}
	w.invite.Do(func() {
		w.log.Info("the runtime reported membridge's address", "url", address)
		close(w.invited)
	})
}

// announce keeps the worker registered with membridge until stop, which reports it offline.
func (w *Worker) announce() (stop func()) {
	ctx, leave := context.WithCancel(context.Background())
	left := make(chan struct{})
	go func() {
		defer close(left)
		select {
		case <-w.invited:
			w.announcer.Run(ctx)
		case <-ctx.Done():
		}
	}()
	return func() {
		leave()
		<-left
		w.bridge.Close()
	}
}
