package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/auth"
	"github.com/bloom-runtime/bloom/internal/config"
	"github.com/bloom-runtime/bloom/internal/dispatch"
	"github.com/bloom-runtime/bloom/internal/front"
	"github.com/bloom-runtime/bloom/internal/guard"
	"github.com/bloom-runtime/bloom/internal/httpapi"
	"github.com/bloom-runtime/bloom/internal/installer"
	"github.com/bloom-runtime/bloom/internal/problems"
	"github.com/bloom-runtime/bloom/internal/store/postgres"
	"github.com/bloom-runtime/bloom/internal/store/sqlite"
	"github.com/bloom-runtime/bloom/internal/telemetry"
	"github.com/bloom-runtime/bloom/internal/timing"
	"github.com/bloom-runtime/bloom/internal/webui"
)

// openServer is OpenServer with the key of a worker in the same process, which gets its own
// listener if others must use TLS.
func openServer(ctx context.Context, cfg config.Server, b Build, workerKey string) (_ *Server, err error) {
	s := &Server{cfg: cfg, log: b.Logger, metrics: telemetry.NewMetrics(timing.System{})}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	proxies, err := cfg.Proxies()
	if err != nil {
		return nil, ConfigError{err}
	}
	// The port first: an accidental second start should report that before it reports the
	// database's lock.
	if s.listener, err = listen(ctx, front.SocketListen, cfg.Listen, "--listen 127.0.0.1:5001, or PORT"); err != nil {
		return nil, err
	}
	if s.auth, err = auth.New(auth.Config{
		AdminKey: string(cfg.RuntimeAPIKey), WorkerKey: string(cfg.RuntimeWorkerKey), LocalWorkerKey: workerKey,
		LoopbackOnly: isLoopback(s.listener.Addr()), InsecureNoAuth: cfg.InsecureNoAuth, WorkerCertificates: cfg.TLSClientCA != "", Proxies: proxies, OIDC: oidcOf(cfg.OIDC),
	}); err != nil {
		return nil, ConfigError{err}
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
	s.observed = s.metrics.Observe(s.store, b.Tracing)
	deps := dispatch.Config{Store: s.observed, Blobs: s.blobs, Objects: nil, Contents: nil, BlobState: s.folder.State, RowLimit: 0, MaxWorkers: 0, SettingsPoll: 0, MaxFile: int64(s.cfg.ArtifactLimitMiB) << 20, MaxAttachments: int64(s.cfg.AttachmentLimitMiB) << 20, TempDir: s.cfg.DataDir, Seal: seal, Logger: b.Logger,
		Membridge: nil, MembridgeURL: "", MembridgeAdminKey: "",
		MaxQueued: int64(cfg.MaxQueued), MaxQueuedByActor: int64(cfg.MaxQueuedKey), Machine: func() problems.Machine { return s.machine(b.Version) }}
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

// oidcOf returns the sign-in provider; nil when none is configured.
func oidcOf(c config.OIDC) *auth.OIDC {
	if c.OIDCIssuer == "" {
		return nil
	}
	o := &auth.OIDC{Issuer: c.OIDCIssuer, ClientID: c.OIDCClientID, ClientSecret: string(c.OIDCClientSecret), RedirectURL: c.OIDCRedirectURL, Scopes: c.OIDCScope, Claim: c.OIDCClaim}
	rules, _ := c.Rules() // already validated
	for _, r := range rules {
		o.Roles = append(o.Roles, auth.RoleRule{Role: auth.Role(r[0]), Value: r[1]})
	}
	return o
}

// openAccess enables stored keys. A server that requires a key and has none is an error in the
// settings.
func (s *Server) openAccess(ctx context.Context, seal *auth.Sealer) error {
	err := s.auth.Open(ctx, s.store, seal, timing.System{})
	if errors.As(err, new(*bloom.Error)) || err == nil {
		return err
	}
	return ConfigError{err}
}

func (s *Server) openStore(ctx context.Context) (err error) {
	if err := os.MkdirAll(s.cfg.DataDir, 0o700); err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	if err = s.openDatabase(ctx); err != nil {
		return err
	}
	if s.installation, err = openInstallation(ctx, s.store); err != nil {
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
		err := awaitDatabase(ctx, s.log, func() error {
			store, err := postgres.Open(ctx, postgres.Config{URL: string(s.cfg.DatabaseURL), Logger: s.log, Committed: s.metrics.Committed, Transcripts: atEnd})
			if err == nil {
				s.store = store
			}
			return err
		})
		if err != nil {
			return ofDatabase(err)
		}
		return nil
	}
	path := filepath.Join(s.cfg.DataDir, DatabaseFile)
	store, err := sqlite.Open(ctx, sqlite.Config{Path: path, Logger: s.log, Committed: s.metrics.Committed, Transcripts: atEnd})
	if errors.Is(err, sqlite.ErrLocked) {
		return err // it names the process and what to do
	}
	if err != nil {
		if free, look := freeBytes(s.cfg.DataDir); look == nil && free < leastFree {
			return fmt.Errorf("the disk of %s is full (%d KiB free): free some space, or choose another folder with --data-dir: %w", s.cfg.DataDir, free>>10, err)
		}
		return fmt.Errorf("open the database %s: %w", path, err)
	}
	s.store = store
	return nil
}

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
	registrations, streams, files := httpapi.DefaultLimits.Registrations, httpapi.DefaultLimits.Streams, httpapi.DefaultLimits.Files
	if s.cfg.RateAddress == 0 {
		files = 0
	}
	if s.cfg.RateWorker == 0 {
		registrations = 0
	}
	ofFiles := front.OpenFiles() / 8 // a download has two files open: with as many, a key has a quarter of them
	if s.cfg.RateKey == 0 {
		streams = ofFiles
	}
	streams = min(streams, ofFiles)
	s.handler = b.Tracing.Handler(httpapi.New(httpapi.Config{
		Service: s.service, Store: s.observed, Auth: s.auth, Origin: origin, Proxy: proxy, Metrics: s.metrics, Observe: s.metrics.Request, Proxies: proxies,
		Logger: b.Logger, RequestLevel: b.RequestLevel, Version: b.Version, Web: webui.New(), Installer: installer,
		PageBytes: s.cfg.PageMiB << 20, BodyBudget: int64(s.cfg.BodyBudgetMiB) << 20, StreamTimeout: s.cfg.StreamTimeout, Refused: s.metrics.Refused,
		Limits: httpapi.Limits{Address: s.cfg.RateAddress, SignIn: s.cfg.RateSignIn, Key: s.cfg.RateKey, Worker: s.cfg.RateWorker,
			Registrations: registrations, Streams: streams, Files: files},
		Known: front.Known, LoopbackOnly: isLoopback(s.listener.Addr()),
		Disk:      func() *httpapi.Disk { return diskOf(s.cfg.DataDir) },
		PrivateCA: func() bool { return s.front.PrivateCA(s.domain()) },
	}))
	s.metrics.Describe(b.Version, s.store, s.bridgeState())
	s.metrics.DescribeAuth(func() string { return string(s.Mode()) }, string(auth.ModeKeys), string(auth.ModeDevelopment), string(auth.ModeInsecure))
	s.metrics.DescribeStorage(s.service.Content.State, s.service.Content.Waiting)
	if s.cfg.Secure() {
		s.metrics.DescribeCertificate(func() time.Time { return s.front.CertificateExpires(s.domain()) })
	}
	s.metrics.DescribeAudit(s.store, s.auditFiles != nil)
	s.loops = s.backgroundLoops()
	return nil
}

// machine describes the server itself.
func (s *Server) machine(version string) problems.Machine {
	m := problems.Machine{Version: version, WritesFail: s.store.WritesFail(), Domain: s.domain()}
	if disk := diskOf(s.cfg.DataDir); disk != nil {
		m.FreeBytes, m.DiskLow = disk.Free, disk.Low
	}
	if ends := s.front.CertificateExpires(m.Domain); !ends.IsZero() {
		m.CertExpires = timing.Millis(ends)
	}
	return m
}

// domain returns the domain whose certificate comes from ACME; empty when files have it.
func (s *Server) domain() string {
	if len(s.cfg.ACMEDomain) == 0 {
		return ""
	}
	return s.cfg.ACMEDomain[0]
}
