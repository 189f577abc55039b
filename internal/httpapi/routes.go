package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/auth"
	"github.com/bloom-runtime/bloom/internal/dispatch"
)

func (s *Server) routes() {
	s.systemRoutes()
	s.seriesRoutes()
	s.problemRoutes()
	s.filterRoutes()
	s.scheduleRoutes()
	s.approvalRoutes()
	s.sessionRoutes()
	s.accessRoutes()
	s.taskRoutes()
	s.leaseRoutes()
	s.workerRoutes()
	s.recordRoutes()
	s.contextRoutes()
	s.streamRoutes()
	s.proxyRoutes()
}

// health is the response of GET /health.
type health struct {
	Status    string                  `json:"status" enum:"ok,degraded"`
	Service   string                  `json:"service"`
	Version   string                  `json:"version" doc:"Version of the program"`
	Uptime    float64                 `json:"uptime" doc:"Seconds"`
	Storage   string                  `json:"storage"`
	Membridge dispatch.MembridgeState `json:"membridge"`
	Artifacts bloom.BlobState         `json:"artifacts" doc:"Where artifacts are kept"`
	MaxFiles  int64                   `json:"max_attachments" doc:"How large the files that a task is posted with may be together, in bytes; 0: none are accepted"`
	Auth      auth.Mode               `json:"auth" enum:"keys,development,insecure" doc:"How callers are authenticated"`
	PrivateCA bool                    `json:"private_ca,omitempty" doc:"The server's certificate is signed by an authority that its system does not know: workers need --ca-file; absent for callers without a key"`
	Loopback  bool                    `json:"loopback_only,omitempty" doc:"The server listens on loopback only: no other machine reaches it directly"`
	Disk      *Disk                   `json:"disk,omitempty" doc:"Disk of the data directory; absent for callers without a key, and if it is unknown"`
}

// Disk is the space of the file system that holds the server's data directory.
type Disk struct {
	Free  uint64 `json:"free_bytes"`
	Total uint64 `json:"total_bytes"`
	Low   bool   `json:"low" doc:"The disk is almost full"`
}

// healthPaths are the paths that answer with health.
var healthPaths = []string{runtimePath + "/health", "/health", "/healthz", "/readyz"}

func (s *Server) systemRoutes() {
	for _, p := range []struct{ path, id string }{
		{runtimePath + "/health", "health"}, {"/health", "root-health"}, {"/healthz", "healthz"},
	} {
		handle(s, route{method: http.MethodGet, path: p.path, id: p.id, small: true, summary: "Health", tag: "system"}, s.health)
	}
	handle(s, route{method: http.MethodGet, path: "/readyz", id: "readyz", small: true, summary: "Readiness: 503 while the store does not answer or refuses writes", tag: "system"},
		func(ctx context.Context, c *call, in *none) (*reply[health], error) {
			h, err := s.health(ctx, c, in)
			if err == nil && s.writable.check(s.clock, s.svc.Writable) != nil {
				h.Status, h.Body.Status = http.StatusServiceUnavailable, "degraded"
			}
			return h, err
		})
	handle(s, route{method: http.MethodGet, path: runtimePath + "/config", id: "get-config", small: true, summary: "Settings", tag: "system"},
		func(context.Context, *call, *none) (*reply[dispatch.Settings], error) {
			return &reply[dispatch.Settings]{http.StatusOK, s.svc.Settings()}, nil
		})
	handle(s, route{method: http.MethodPost, path: runtimePath + "/config", id: "set-config", summary: "Save membridge's address and key", tag: "system", body: configBody{}},
		func(ctx context.Context, c *call, _ *none) (*reply[dispatch.Settings], error) {
			var b configBody
			if err := s.decode(c, limitBody, &b); err != nil {
				return nil, err
			}
			set, err := s.svc.Configure(ctx, b.MembridgeURL, b.AdminKey, c.caller.Name)
			return &reply[dispatch.Settings]{http.StatusOK, set}, err
		})
	handle(s, route{method: http.MethodPost, path: runtimePath + "/test-connection", id: "test-connection", summary: "Test the connection to membridge with the stored settings", tag: "system"}, s.testConnection)
	handle(s, route{method: http.MethodGet, path: runtimePath + "/stats", id: "stats", small: true, summary: "Counts at a glance", tag: "system"},
		func(ctx context.Context, _ *call, _ *none) (*reply[bloom.Stats], error) {
			st, err := s.store.Stats(ctx)
			return &reply[bloom.Stats]{http.StatusOK, st}, err
		})
}

// health shows callers without a key neither addresses nor internal errors.
func (s *Server) health(ctx context.Context, c *call, _ *none) (*reply[health], error) {
	h := health{
		Status: "ok", Service: "bloom-runtime", Version: s.version, Uptime: s.clock.Now().Sub(s.started).Seconds(),
		Storage: s.store.Name(), Membridge: s.svc.MembridgeState(), Artifacts: s.svc.Content.State(), MaxFiles: s.svc.MaxAttachments(), Auth: s.auth.Mode(), Loopback: s.loopbackOnly,
	}
	if c.caller.Known() && s.disk != nil {
		h.Disk = s.disk()
	}
	h.PrivateCA = c.caller.Known() && s.privateCA != nil && s.privateCA()
	if !c.caller.Known() {
		h.Membridge.SkippedWhy = ""
		if h.Membridge.LastError != nil {
			hidden := "unreachable"
			h.Membridge.LastError = &hidden
		}
		if h.Artifacts.LastError != nil {
			hidden := "unavailable"
			h.Artifacts.LastError = &hidden
		}
	}
	if err := s.stored.check(s.clock, func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second) // the result is for other callers, too
		defer cancel()
		return s.store.Ping(ctx)
	}); err != nil {
		h.Status = "degraded"
		return &reply[health]{http.StatusServiceUnavailable, h}, nil
	}
	if c.caller.Known() && h.Artifacts.Kind == bloom.BlobsS3 {
		if n, err := s.svc.Content.Waiting(ctx); err == nil {
			h.Artifacts.Waiting = &n
		}
	}
	return &reply[health]{http.StatusOK, h}, nil
}

func (s *Server) testConnection(ctx context.Context, c *call, _ *none) (*reply[dispatch.Connection], error) {
	if err := s.limits.take(c.w, s.limits.test, s.network(c.r)); err != nil {
		return nil, err
	}
	actor, audited := c.caller.Name, true
	if !c.caller.Known() {
		actor = "anonymous"
		audited = s.anonymousAudits.Allow("").Wait == 0
	}
	found, err := s.svc.TestConnection(ctx, actor, audited)
	return &reply[dispatch.Connection]{http.StatusOK, found}, err
}
