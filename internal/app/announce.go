package app

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/config"
	"github.com/bloom-runtime/bloom/internal/membridge"
	"github.com/bloom-runtime/bloom/internal/membridge/announce"
	"github.com/bloom-runtime/bloom/internal/membridge/mbclient"
)

// MembridgeAccount is where a worker makes itself known besides the runtime, and
// as whom. The agent key is enough; the admin key serves when there is no other.
type MembridgeAccount struct {
	URL      string      // empty: not known
	TLS      *tls.Config // nil: the system's authorities are trusted
	AgentKey string
	AdminKey string
}

// client speaks to membridge as the agent that the token is of.
func (a MembridgeAccount) client(token string) (*mbclient.Client, error) {
	o := mbclient.Options{URL: a.URL, TLS: a.TLS, AgentKey: a.AgentKey, Token: token, AddressPolicy: membridge.DefaultDialPolicy}
	if o.AgentKey == "" {
		o.Key = a.AdminKey
	}
	if o.Key == "" {
		o.KeyName = "MEMBRIDGE_AGENT_KEY" // which a worker needs when it has none
	}
	c, err := mbclient.New(o)
	if err != nil {
		return nil, fmt.Errorf("membridge's address: %w", err)
	}
	return c, nil
}

// route carries a worker's calls to where the runtime is now. Its address may
// become known, or change, while the worker lives, when membridge tells it.
type route struct {
	next http.RoundTripper

	mu    sync.Mutex
	from  *url.URL      // what the client was made for
	to    *url.URL      // where calls go
	known chan struct{} // closed with the first address
}

func newRoute(secure *tls.Config) *route {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = secure
	transport.MaxIdleConnsPerHost = 128
	return &route{next: transport, known: make(chan struct{})}
}

// point sends calls to address from now on. What is no address is refused, and
// changes nothing.
func (r *route) point(address string) error {
	if err := config.CheckURL(address); err != nil {
		return err
	}
	u, err := url.Parse(strings.TrimRight(address, "/"))
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.to = u
	if r.from == nil {
		r.from = u
		close(r.known)
	}
	return nil
}

// first waits for the first address; empty when ctx ended before.
func (r *route) first(ctx context.Context) string {
	select {
	case <-r.known:
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.from.String()
	case <-ctx.Done():
		return ""
	}
}

// RoundTrip makes the call where the runtime is.
func (r *route) RoundTrip(req *http.Request) (*http.Response, error) {
	r.mu.Lock()
	from, to := r.from, r.to
	r.mu.Unlock()
	if from != to {
		req = req.Clone(req.Context())
		req.Host = ""
		req.URL.Scheme, req.URL.Host = to.Scheme, to.Host
		req.URL.Path = to.Path + strings.TrimPrefix(req.URL.Path, from.Path)
		req.URL.RawPath = ""
	}
	return r.next.RoundTrip(req)
}

func (r *route) httpClient() *http.Client {
	return &http.Client{Transport: r, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// newAnnouncer makes what keeps the worker known to membridge.
func (w *Worker) newAnnouncer() *announce.Announcer {
	cfg := announce.Config{
		Client: w.bridge, Interval: w.cfg.Run.AnnounceEvery, Log: w.log.With("worker", w.cfg.Run.Name),
		Registration: func() mbclient.Registration {
			status, can := w.standing()
			return w.memory.named(mbclient.Registration{
				Name: w.cfg.Run.Name, Status: status, Capabilities: can, IPAddrs: w.about.IPAddrs,
				AgentVersion: w.about.AgentVersion, OSInfo: w.about.OSInfo, InstallMethod: w.about.InstallMethod,
			})
		},
		Beat: func() mbclient.Beat {
			status, can := w.standing()
			return w.memory.described(mbclient.Beat{Status: status, Capabilities: &can, Load: &mbclient.Load{Running: w.running()}, IPAddrs: addresses()})
		},
		OnDrain: w.followDrain, Carry: w.memory.carry,
	}
	if w.cfg.URL == "" {
		cfg.OnRuntimeURL = w.moved
	}
	return announce.New(cfg)
}

// standing is what membridge is told. A worker that cannot reach the runtime is
// of unknown status, not online, and one that cannot write its state folder has an
// error: nobody should give them work.
func (w *Worker) standing() (bloom.WorkerStatus, bloom.Capabilities) {
	can := w.capabilities()
	can.ClaudeCLI = w.runner.Usable(context.Background()) == nil
	inner := w.inner.Load()
	if inner == nil {
		return bloom.WorkerUnknown, can
	}
	switch s := inner.Status(); {
	case s.Trouble != "":
		return bloom.WorkerUnknown, can
	case s.Unwritable != "":
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

// followDrain follows whether membridge drains the worker, also when that came before
// the runtime was found.
func (w *Worker) followDrain(drain bool) {
	w.drainMu.Lock()
	defer w.drainMu.Unlock()
	if w.drain == nil {
		close(w.heard)
	}
	w.drain = &drain
	w.passOn()
}

// passOn passes it on to the inner worker, when there are both. w.drainMu is held.
func (w *Worker) passOn() {
	if inner := w.inner.Load(); inner != nil && w.drain != nil {
		inner.FollowControlPlane(*w.drain)
	}
}

// drainPatience is how long a starting worker waits for membridge to say whether it
// drains the worker.
const drainPatience = 3 * time.Second

// awaitDrain waits for membridge's first answer, so that a worker that was drained while
// it was down claims nothing before it knows. When membridge is silent for longer, the
// worker starts with the level that the runtime last knew. It does not wait for a
// membridge whose address only the runtime knows.
func (w *Worker) awaitDrain(ctx context.Context) {
	if w.cfg.Membridge.URL == "" {
		return
	}
	timer := time.NewTimer(drainPatience)
	defer timer.Stop()
	select {
	case <-w.heard:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// moved follows the runtime to the address that membridge tells.
func (w *Worker) moved(address string) {
	if address == "" {
		w.log.Warn("membridge does not know where the runtime is; start it with --runtime-url, or give that to this worker")
		return
	}
	if loopbackURL(address) && !loopbackURL(w.cfg.Membridge.URL) {
		w.log.Warn("membridge tells an address of the runtime that means only its own machine; start it with the --runtime-url that others reach, or give that to this worker",
			"url", address)
		return
	}
	if err := w.route.point(address); err != nil {
		w.log.Error("membridge tells an address of the runtime that is none", "error", err)
		return
	}
	w.log.Info("membridge tells where the runtime is", "url", address)
}

// invitedTo joins the membridge that the runtime tells of, when that can work:
// an address of the runtime's own machine leads nowhere from another one, and a
// membridge that others can reach wants a key. The admin key goes to nobody whom
// the operator has not named.
func (w *Worker) invitedTo(address string) {
	local := loopbackURL(address)
	if local && !loopbackURL(w.cfg.URL) || !local && w.cfg.Membridge.AgentKey == "" {
		w.log.Debug("the runtime tells of a membridge that this worker cannot join", "url", address)
		return
	}
	if err := w.bridge.Configure(address, ""); err != nil {
		w.log.Error("the runtime tells an address of membridge that is none", "error", err)
		return
	}
	w.invite.Do(func() {
		w.log.Info("the runtime tells where membridge is", "url", address)
		close(w.invited)
	})
}

func loopbackURL(address string) bool {
	u, err := url.Parse(address)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(u.Hostname())
	return u.Hostname() == "localhost" || err == nil && ip.Unmap().IsLoopback()
}

// announce keeps the worker known to membridge until stop, which says goodbye.
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
