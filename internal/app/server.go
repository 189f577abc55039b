package app

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"time"

	"github.com/bloom-runtime/bloom/internal/auditlog"
	"github.com/bloom-runtime/bloom/internal/auth"
	"github.com/bloom-runtime/bloom/internal/blob/local"
	"github.com/bloom-runtime/bloom/internal/blob/tiered"
	"github.com/bloom-runtime/bloom/internal/config"
	"github.com/bloom-runtime/bloom/internal/dispatch"
	"github.com/bloom-runtime/bloom/internal/front"
	"github.com/bloom-runtime/bloom/internal/maintenance"
	"github.com/bloom-runtime/bloom/internal/retry"
	"github.com/bloom-runtime/bloom/internal/store/contract"
	"github.com/bloom-runtime/bloom/internal/telemetry"
)

// Limits of the HTTP server. A long poll lasts a minute, a completion of 32 MB over a slow link
// longer; streams remove the write limit for themselves.
const (
	readHeaderTimeout = 10 * time.Second
	readTimeout       = 5 * time.Minute
	writeTimeout      = 5 * time.Minute
	idleTimeout       = 2 * time.Minute
	maxHeaderBytes    = 32 << 10
	membridgeGrace    = 5 * time.Second
)

// gcPercent is GOGC. The live heap is so small that Go's default would run the collector dozens of
// times a second under load.
const gcPercent = 200

// DatabaseFile is the database's name in the data directory.
const DatabaseFile = "bloom.db"

// Server is the runtime server, open and ready to run.
type Server struct {
	cfg config.Server

	installation installation
	log          *slog.Logger
	auth         *auth.Authenticator
	listener     net.Listener
	private      net.Listener // for the worker of the same process; nil without TLS
	front        *front.Front
	handler      http.Handler
	store        interface {
		contract.Store
		telemetry.Inner
	}
	observed   contract.Store // store, with its operations in the metrics
	blobs      artifacts
	folder     *local.Store
	shared     []maintenance.Uploads // where content is that all servers see; empty without object storage
	objects    *tiered.Store         // nil without object storage
	mover      *maintenance.Mover
	auditFiles auditlog.Files // nil where the audit is not exported
	control    *controlPlane  // nil without one
	service    *dispatch.Service
	loops      []*maintenance.Loop
	metrics    *telemetry.Metrics
	leader     *leader // nil when no other server can share the store
}

// OpenServer builds the server and listens. Before Run, health checks are answered with 503 and
// other requests wait. Its errors are for the operator.
func OpenServer(ctx context.Context, cfg config.Server, b Build) (*Server, error) {
	return openServer(ctx, cfg, b, "")
}

// leastFree is roughly the size of a new database, in bytes.
const leastFree = 2 << 20

// URL returns the URL for clients on this machine.
func (s *Server) URL() string { return localURL(s.front.Scheme(), s.listener.Addr()) }

// openURL returns the URL for other machines: a listener on all addresses keeps its unspecified
// host, which only the client can replace.
func (s *Server) openURL() string { return s.front.Scheme() + "://" + s.listener.Addr().String() }

// privateURL returns the URL for the worker in the same process: the certificate is for the public
// name.
func (s *Server) privateURL() string {
	if s.private == nil {
		return s.URL()
	}
	return localURL("http", s.private.Addr())
}

// Mode returns how callers are authenticated.
func (s *Server) Mode() auth.Mode { return s.auth.Mode() }

// Store returns the server's store, for users in the same process who need more than the HTTP API.
func (s *Server) Store() contract.Store { return s.store }

// Run serves until ctx ends, then waits for active requests. When cut ends, it stops waiting.
func (s *Server) Run(ctx, cut context.Context) error {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	for _, l := range s.loops {
		l.Start()
		defer l.Stop()
	}
	s.front.Handle(s.handler)
	front.Notify(front.Ready)
	select {
	case err := <-s.front.Failed():
		s.log.Error("the server failed", "error", err)
		return err
	case <-ctx.Done():
		front.Notify(front.Stopping)
		return s.shutdown(cut)
	}
}

// shutdown fails /readyz, stops accepting, ends long polls and streams immediately, and waits for
// other requests within the grace period.
func (s *Server) shutdown(cut context.Context) error {
	s.front.Drain()
	if s.cfg.ShutdownDelay > 0 {
		_ = retry.Sleep(cut, s.cfg.ShutdownDelay) // when cut ends, it shuts down immediately
	}
	wait, done := context.WithTimeout(cut, s.cfg.ShutdownGrace)
	defer done()
	if err := s.front.Shutdown(wait, s.service.Close); err != nil {
		if cut.Err() != nil {
			s.log.Warn("cutting off unfinished requests: asked to stop immediately")
		} else {
			s.log.Warn("cutting off requests that did not finish in time", "grace", s.cfg.ShutdownGrace)
		}
		return s.front.Close()
	}
	return nil
}

// Close releases everything; call it after Run or instead of it.
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
