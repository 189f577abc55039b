package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/auditlog"
	"github.com/bloom-runtime/bloom/internal/auth"
	"github.com/bloom-runtime/bloom/internal/blob/local"
	"github.com/bloom-runtime/bloom/internal/blob/tiered"
	"github.com/bloom-runtime/bloom/internal/config"
	"github.com/bloom-runtime/bloom/internal/dispatch"
	"github.com/bloom-runtime/bloom/internal/front"
	"github.com/bloom-runtime/bloom/internal/guard"
	"github.com/bloom-runtime/bloom/internal/httpapi"
	"github.com/bloom-runtime/bloom/internal/installer"
	"github.com/bloom-runtime/bloom/internal/maintenance"
	"github.com/bloom-runtime/bloom/internal/retry"
	"github.com/bloom-runtime/bloom/internal/store/postgres"
	"github.com/bloom-runtime/bloom/internal/store/sqlite"
	"github.com/bloom-runtime/bloom/internal/telemetry"
	"github.com/bloom-runtime/bloom/internal/webui"
)

// Limits of the HTTP server. A long poll lasts a minute, a completion of 32 MB
// over a slow line longer; streams lift the write limit for themselves.
const (
	readHeaderTimeout = 10 * time.Second
	readTimeout       = 5 * time.Minute
	writeTimeout      = 5 * time.Minute
	idleTimeout       = 2 * time.Minute
	maxHeaderBytes    = 32 << 10
	membridgeGrace    = 5 * time.Second
)

// gcPercent is how much garbage may gather, in percent of what is in use. What is in use
// is so little that Go's default has the collector run dozens of times a second under load.
const gcPercent = 200

// DatabaseFile is the database's name in the data folder.
const DatabaseFile = "bloom.db"

// Server is the runtime server, open and ready to run.
type Server struct {
	cfg      config.Server
	log      *slog.Logger
	auth     *auth.Authenticator
	listener net.Listener
	private  net.Listener // for the worker of the same process; nil without TLS
	front    *front.Front
	handler  http.Handler
	store    interface {
		bloom.Store
		telemetry.Inner
	}
	blobs      artifacts
	folder     *local.Store
	objects    *tiered.Store // nil without object storage
	mover      *maintenance.Mover
	auditFiles auditlog.Files // nil where the audit is not exported
	control    *controlPlane  // nil without one
	service    *dispatch.Service
	loops      []*maintenance.Loop
	metrics    *telemetry.Metrics
	leader     *leader // nil when no other server can share the store
}

// OpenServer builds the server and takes its port. Before Run only questions after
// its health are answered, with 503; the others wait. The errors are for the person
// who starts it.
func OpenServer(ctx context.Context, cfg config.Server, b Build) (*Server, error) {
	return openServer(ctx, cfg, b, "")
}

// openServer is OpenServer. A workerKey is for a worker of the same process, which
// then gets a listener of its own where others have to use TLS.
func openServer(ctx context.Context, cfg config.Server, b Build, workerKey string) (_ *Server, err error) {
	s := &Server{cfg: cfg, log: b.Logger, metrics: telemetry.NewMetrics(bloom.SystemClock{})}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	proxies, err := cfg.Proxies()
	if err != nil {
		return nil, Misuse{err}
	}
	// The port first: a second start by mistake should hear of it before it
	// stumbles over the database's lock.
	if s.listener, err = listen(ctx, front.SocketListen, cfg.Listen, "--listen 127.0.0.1:5001, or PORT"); err != nil {
		return nil, err
	}
	if s.auth, err = auth.New(auth.Config{
		AdminKey: string(cfg.RuntimeAPIKey), WorkerKey: string(cfg.RuntimeWorkerKey), LocalWorkerKey: workerKey,
		LoopbackOnly: isLoopback(s.listener.Addr()), InsecureNoAuth: cfg.InsecureNoAuth, WorkerCertificates: cfg.TLSClientCA != "", OIDC: oidcOf(cfg.OIDC),
	}); err != nil {
		return nil, Misuse{err}
	}
	if err = s.openFront(ctx, workerKey != ""); err != nil {
		return nil, err
	}
	if err = s.openStore(ctx); err != nil {
		return nil, err
	}
	seal, err := OpenSealer(cfg.Sealing, cfg.DataDir)
	if err != nil {
		return nil, err
	}
	if err = s.openAccess(ctx, seal); err != nil {
		return nil, err
	}
	deps := dispatch.Config{Store: s.metrics.Observe(s.store, b.Tracing), Blobs: s.blobs, Objects: nil, Contents: nil, BlobState: s.folder.State, RowLimit: 0, MaxFile: int64(s.cfg.ArtifactLimitMiB) << 20, Seal: seal, Logger: b.Logger,
		Membridge: nil, MembridgeURL: "", MembridgeAdminKey: "", PageBytes: cfg.PageMiB << 20,
		MaxQueued: int64(cfg.MaxQueued), MaxQueuedByActor: int64(cfg.MaxQueuedKey), Machine: func() dispatch.Machine { return s.machine(b.Version) }}
	s.openMover()
	deps.Contents = s.mover
	if s.objects != nil {
		deps.Objects, deps.RowLimit = s.objects, maxRowContent
	}
	if !cfg.NoMembridge {
		if s.control, err = newControlPlane(cfg, b.Logger); err != nil {
			return nil, err
		}
		deps.Membridge, deps.MembridgeURL, deps.MembridgeAdminKey = s.control, cfg.MembridgeServerURL, string(cfg.MembridgeAdminKey)
	}
	if s.service, err = dispatch.New(ctx, deps); err != nil {
		return nil, err
	}
	return s, s.buildHTTP(b, proxies)
}

// oidcOf is the provider that people sign in at; nil when none is set.
func oidcOf(c config.OIDC) *auth.OIDC {
	if c.OIDCIssuer == "" {
		return nil
	}
	o := &auth.OIDC{Issuer: c.OIDCIssuer, ClientID: c.OIDCClientID, ClientSecret: string(c.OIDCClientSecret), RedirectURL: c.OIDCRedirectURL, Scopes: c.OIDCScope, Claim: c.OIDCClaim}
	rules, _ := c.Rules() // they were checked with the settings
	for _, r := range rules {
		o.Roles = append(o.Roles, auth.RoleRule{Role: auth.Role(r[0]), Value: r[1]})
	}
	return o
}

// openAccess lets stored keys count. A server that has to have a key and has none is
// a mistake in the settings.
func (s *Server) openAccess(ctx context.Context, seal *auth.Sealer) error {
	err := s.auth.Open(ctx, s.store, seal, bloom.SystemClock{})
	if errors.As(err, new(*bloom.Error)) || err == nil {
		return err
	}
	return Misuse{err}
}

func (s *Server) openStore(ctx context.Context) (err error) {
	if err := os.MkdirAll(s.cfg.DataDir, 0o700); err != nil {
		return fmt.Errorf("data folder: %w", err)
	}
	if err = s.openDatabase(ctx); err != nil {
		return err
	}
	if err = s.openArtifacts(ctx); err != nil {
		return err
	}
	s.auditFiles, err = s.openAuditFiles()
	return err
}

func (s *Server) openDatabase(ctx context.Context) error {
	_, atEnd := s.cfg.Transcribe()
	if s.cfg.DatabaseURL != "" {
		store, err := postgres.Open(ctx, postgres.Config{URL: string(s.cfg.DatabaseURL), Logger: s.log, Committed: s.metrics.Committed, Transcripts: atEnd})
		if err != nil {
			return ofDatabase(err)
		}
		s.store = store
		return nil
	}
	path := filepath.Join(s.cfg.DataDir, DatabaseFile)
	store, err := sqlite.Open(ctx, sqlite.Config{Path: path, Logger: s.log, Committed: s.metrics.Committed, Transcripts: atEnd})
	if errors.Is(err, sqlite.ErrLocked) {
		return err // it says who, and what to do
	}
	if err != nil {
		if free, look := freeBytes(s.cfg.DataDir); look == nil && free < leastFree {
			return fmt.Errorf("the disk of %s is full (%d KiB are free): make room, or name another folder with --data-dir: %w", s.cfg.DataDir, free>>10, err)
		}
		return fmt.Errorf("open the database %s: %w", path, err)
	}
	s.store = store
	return nil
}

// leastFree is what a new database takes, about, in bytes.
const leastFree = 2 << 20

func (s *Server) buildHTTP(b Build, proxies guard.Proxies) error {
	origin, err := auth.NewOrigin(s.cfg.TrustedOrigin...)
	if err != nil {
		return fmt.Errorf("--trusted-origin: %w", err)
	}
	var proxy httpapi.MembridgeProxy // stays nil without a control plane
	if s.control != nil {
		proxy = s.control
	}
	installer, err := installer.New(s.cfg.DistDir, proxies.OverTLS, b.Logger)
	if err != nil {
		return fmt.Errorf("--dist-dir: %w", err)
	}
	s.handler = b.Tracing.Handler(httpapi.New(httpapi.Config{
		Service: s.service, Auth: s.auth, Origin: origin, Proxy: proxy, Metrics: s.metrics, Observe: s.metrics.Request, Proxies: proxies,
		Logger: b.Logger, Version: b.Version, Web: webui.New(), Installer: installer,
		BodyBudget: int64(s.cfg.BodyBudgetMiB) << 20, StreamTimeout: s.cfg.StreamTimeout, Refused: s.metrics.Refused,
		Limits: httpapi.Limits{Address: s.cfg.RateAddress, SignIn: s.cfg.RateSignIn, Key: s.cfg.RateKey, Worker: s.cfg.RateWorker},
		Disk:   func() *httpapi.Disk { return diskOf(s.cfg.DataDir) },
	}))
	s.metrics.Describe(b.Version, s.store, s.bridgeState())
	s.metrics.DescribeAuth(func() string { return string(s.Mode()) }, string(auth.ModeKeys), string(auth.ModeDevelopment), string(auth.ModeInsecure))
	s.metrics.DescribeStorage(s.service.Blobs, s.service.WaitingContent)
	if s.cfg.TLSCert != "" { // one of an authority is asked for when it is needed, and may take a while
		s.metrics.DescribeCertificate(func() time.Time { return s.front.CertificateExpires("") })
	}
	s.metrics.DescribeAudit(s.store, s.auditFiles != nil)
	s.loops = s.backgroundLoops()
	return nil
}

// machine is what the server knows of itself.
func (s *Server) machine(version string) dispatch.Machine {
	m := dispatch.Machine{Version: version, WritesFail: s.store.WritesFail()}
	if len(s.cfg.ACMEDomain) > 0 {
		m.Domain = s.cfg.ACMEDomain[0]
	}
	if disk := diskOf(s.cfg.DataDir); disk != nil {
		m.FreeBytes, m.DiskLow = disk.Free, disk.Low
	}
	if ends := s.front.CertificateExpires(m.Domain); !ends.IsZero() {
		m.CertExpires = bloom.Millis(ends)
	}
	return m
}

// URL is how this machine reaches the server.
func (s *Server) URL() string { return localURL(s.front.Scheme(), s.listener.Addr()) }

// openURL is URL for others than this machine: a listener on all addresses keeps
// its unspecified host, which only those who ask can fill in.
func (s *Server) openURL() string { return s.front.Scheme() + "://" + s.listener.Addr().String() }

// privateURL is how the worker of the same process reaches the server: its
// certificate is for a name that others call it by.
func (s *Server) privateURL() string {
	if s.private == nil {
		return s.URL()
	}
	return localURL("http", s.private.Addr())
}

// Mode tells how callers are told apart.
func (s *Server) Mode() auth.Mode { return s.auth.Mode() }

// Store is the server's store, for those in the same process that need what the
// wire does not offer.
func (s *Server) Store() bloom.Store { return s.store }

// Run serves until ctx ends, then lets requests under way finish. The end of
// cut ends the waiting too.
func (s *Server) Run(ctx, cut context.Context) error {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	for _, l := range s.loops {
		l.Start()
		defer l.Stop()
	}
	s.front.Handle(s.handler)
	front.Tell(front.Ready)
	select {
	case err := <-s.front.Failed():
		s.log.Error("the server stopped by itself", "error", err)
		return err
	case <-ctx.Done():
		front.Tell(front.Stopping)
		return s.shutdown(cut)
	}
}

// shutdown tells load balancers, stops accepting, ends long polls and streams at
// once, and lets the other requests finish within the grace.
func (s *Server) shutdown(cut context.Context) error {
	s.front.Drain()
	if s.cfg.ShutdownDelay > 0 {
		_ = retry.Sleep(cut, s.cfg.ShutdownDelay) // cut short, it shuts down at once
	}
	wait, done := context.WithTimeout(cut, s.cfg.ShutdownGrace)
	defer done()
	if err := s.front.Shutdown(wait, s.service.Close); err != nil {
		if cut.Err() != nil {
			s.log.Warn("told to stop at once: requests that did not finish are cut")
		} else {
			s.log.Warn("requests did not finish in time and are cut", "grace", s.cfg.ShutdownGrace)
		}
		return s.front.Close()
	}
	return nil
}

// Close lets go of everything; after Run or instead of it.
func (s *Server) Close() error {
	var errs []error
	if s.service != nil {
		s.service.Close()
	}
	if s.auth != nil {
		s.auth.Close()
	}
	if s.control != nil {
		s.control.client.Close()
	}
	if s.front != nil {
		errs = append(errs, s.front.Close())
	}
	if s.listener != nil {
		if err := s.listener.Close(); !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
	}
	s.leader.close()
	if s.store != nil {
		errs = append(errs, s.store.Close())
	}
	if s.blobs != nil {
		errs = append(errs, s.blobs.Close())
	}
	return errors.Join(errs...)
}
