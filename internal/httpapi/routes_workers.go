package httpapi

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/dispatch"
	"github.com/bloom-runtime/bloom/internal/input"
	"github.com/bloom-runtime/bloom/internal/storable"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

const workersPath = runtimePath + "/workers"

// workerDetail is a worker and its active leases.
type workerDetail struct {
	bloom.Worker
	Leases []bloom.Lease `json:"leases" nullable:"false"`
}

// registeredWorker is the response to a registration.
type registeredWorker struct {
	bloom.Worker
	MembridgeURL string `json:"membridge_url,omitempty" doc:"The control plane's address, as the runtime uses it"`
}

// removed is the response to a removal.
type removed struct {
	Removed bool   `json:"removed"`
	ID      string `json:"id"`
}

// workersAtOnce is how many workers of a list are in memory at a time: there may be very many
// with long records, and readers that take their time.
const workersAtOnce = 64

// workerList is the list of all workers. The first are read before the answer begins.
type workerList struct {
	first []bloom.Worker
	next  func(name string) []bloom.Worker // those that follow a name
}

// Schema describes the list as the array that it is.
func (workerList) Schema(r huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeArray, Items: r.Schema(reflect.TypeFor[bloom.Worker](), true, "Worker")}
}

// write encodes one worker after the other.
func (l workerList) write(w io.Writer) error {
	w = steady(w)
	before := "["
	for some := l.first; len(some) > 0; {
		for _, one := range some {
			if _, err := io.WriteString(w, before); err != nil {
				return err
			}
			if err := huma.DefaultJSONFormat.Marshal(w, one); err != nil {
				return err
			}
			before = ","
		}
		if len(some) < workersAtOnce {
			break
		}
		some = l.next(some[len(some)-1].ID)
	}
	end := "]\n"
	if len(l.first) == 0 {
		end = "[]\n"
	}
	_, err := io.WriteString(w, end)
	return err
}

func (s *Server) workerRoutes() {
	handle(s, route{method: http.MethodGet, path: workersPath, id: "list-workers", summary: "Workers by name", tag: "workers"},
		func(ctx context.Context, c *call, _ *none) (*reply[workerList], error) {
			first, err := s.store.WorkersAfter(ctx, "", workersAtOnce)
			next := func(name string) []bloom.Worker {
				more, err := s.store.WorkersAfter(ctx, name, workersAtOnce)
				if err != nil {
					s.log.WarnContext(ctx, "the list of workers could not be read to its end", "request_id", c.id, "error", err)
					panic(http.ErrAbortHandler) // cut, so that nobody takes it for whole
				}
				return more
			}
			return &reply[workerList]{http.StatusOK, workerList{first, next}}, err
		})
	handle(s, route{method: http.MethodGet, path: workersPath + "/{id}", id: "get-worker", summary: "One worker and its active leases", tag: "workers"},
		func(ctx context.Context, _ *call, in *pathID) (*reply[workerDetail], error) {
			w, leases, err := s.store.Worker(ctx, in.ID)
			if leases == nil {
				leases = []bloom.Lease{}
			}
			return &reply[workerDetail]{http.StatusOK, workerDetail{w, leases}}, err
		})
	handle(s, route{method: http.MethodPost, path: workersPath, id: "register-worker", summary: "Register or update a worker", tag: "workers", body: bloom.WorkerSpec{}}, s.registerWorker)
	// huma describes only one successful response.
	answers := s.api.OpenAPI().Paths[workersPath].Post.Responses
	created := *answers["200"]
	answers["200"].Description, created.Description = "The worker was updated", "The worker was created"
	answers["201"] = &created
	handle(s, route{method: http.MethodDelete, path: workersPath + "/{id}", id: "remove-worker", summary: "Remove a worker and release its leases", tag: "workers"},
		func(ctx context.Context, c *call, in *pathID) (*reply[removed], error) {
			err := s.store.RemoveWorker(ctx, in.ID, c.caller.Name)
			return &reply[removed]{http.StatusOK, removed{true, in.ID}}, err
		})
	handle(s, route{method: http.MethodPost, path: workersPath + "/{id}/drain", id: "drain-worker", summary: "Drain or undrain a worker at the runtime", tag: "workers", body: drainBody{}}, s.drainWorker)
	handle(s, route{method: http.MethodGet, path: workersPath + "/{id}/logs", id: "worker-logs", summary: "The last log lines that a worker reported", tag: "workers"},
		func(ctx context.Context, _ *call, in *pathID) (*reply[bloom.WorkerLogs], error) {
			logs, err := s.store.WorkerLogs(ctx, in.ID)
			// Hashes distinguish processes; with its instance id a process proves which one it is.
			for i, l := range logs.Lines {
				if l.InstanceID != "" {
					sum := sha256.Sum256([]byte(l.InstanceID))
					logs.Lines[i].InstanceID = hex.EncodeToString(sum[:6])
				}
			}
			return &reply[bloom.WorkerLogs]{http.StatusOK, logs}, err
		})
	handle(s, route{method: http.MethodPost, path: workersPath + "/{id}/logs", id: "report-logs", summary: "Report a worker's last log lines", tag: "workers", body: bloom.LogReport{}}, s.reportLogs)
	handle(s, route{method: http.MethodPost, path: workersPath + "/{id}/claim", id: "claim", summary: "A worker's long poll: renews leases, returns new tasks, cancellations and drains", tag: "workers", body: claimBody{}, answer: bloom.ClaimResult{}}, s.claim)
}

func (s *Server) registerWorker(ctx context.Context, c *call, _ *none) (*reply[registeredWorker], error) {
	var body json.RawMessage
	if err := s.read(c, limitBody, &body, nil); err != nil {
		return nil, err
	}
	spec, err := s.workerSpec(ctx, body)
	if err != nil {
		return nil, err
	}
	if err := c.knownFields(body, spec); err != nil {
		return nil, err
	}
	if err := actsAs(c, storable.Text(spec.Name)); err != nil {
		return nil, err
	}
	if err := s.registrationOf(c); err != nil {
		return nil, err
	}
	spec.MustName = isWorker(c)
	w, created, err := s.svc.RegisterWorker(ctx, spec, actorOf(c, spec.Name))
	status := http.StatusOK
	if created {
		status = http.StatusCreated
	}
	return &reply[registeredWorker]{status, registeredWorker{w, s.svc.MembridgeForWorkers()}}, err
}

// workerSpec reads a registration. Absent fields keep the known values of an existing
// worker and get the defaults for a new one; the status becomes online.
func (s *Server) workerSpec(ctx context.Context, body json.RawMessage) (bloom.WorkerSpec, error) {
	read := func(spec bloom.WorkerSpec) (bloom.WorkerSpec, error) {
		if len(body) > 0 {
			if err := unmarshal(body, &spec); err != nil {
				return spec, err
			}
		}
		return spec, input.Check(spec)
	}
	var spec bloom.WorkerSpec
	input.Defaults(&spec)
	spec, err := read(spec)
	if err != nil {
		return spec, err
	}
	known, _, err := s.store.Worker(ctx, storable.Text(spec.Name))
	if errors.Is(err, bloom.ErrWorkerNotFound) {
		return spec, nil
	}
	if err != nil {
		return spec, err
	}
	can := known.Capabilities
	if spec, err = read(bloom.WorkerSpec{Status: bloom.WorkerOnline, Capabilities: bloom.Capabilities{
		ClaudeCLI: can.ClaudeCLI, MaxConcurrency: can.MaxConcurrency, Labels: slices.Clone(can.Labels)}}); err != nil {
		return spec, err
	}
	// Programs send "" and null for unset fields.
	spec.URL = cmp.Or(spec.URL, known.URL)
	spec.AgentVersion = cmp.Or(spec.AgentVersion, known.AgentVersion)
	spec.OSInfo = cmp.Or(spec.OSInfo, known.OSInfo)
	spec.InstallMethod = cmp.Or(spec.InstallMethod, known.InstallMethod)
	if spec.IPAddrs == nil {
		spec.IPAddrs = known.IPAddrs
	}
	if spec.Setup == nil {
		spec.Setup = known.Setup
	}
	if spec.Agents == nil {
		spec.Agents = known.Agents
	}
	if spec.Capabilities.Labels == nil {
		spec.Capabilities.Labels = can.Labels
	}
	return spec, nil
}

func (s *Server) drainWorker(ctx context.Context, c *call, in *pathID) (*reply[bloom.Worker], error) {
	var b drainBody
	if err := s.decode(c, limitBody, &b); err != nil {
		return nil, err
	}
	w, err := s.store.DrainWorker(ctx, in.ID, b.Drain, c.caller.Name)
	return &reply[bloom.Worker]{http.StatusOK, w}, err
}

func (s *Server) reportLogs(ctx context.Context, c *call, in *pathID) (*reply[bloom.WorkerLogs], error) {
	if err := actsAs(c, in.ID); err != nil {
		return nil, err
	}
	var r bloom.LogReport
	if err := s.decode(c, limitBody, &r); err != nil {
		return nil, err
	}
	r.MustName = isWorker(c)
	if err := s.store.ReportLogs(ctx, in.ID, r); err != nil {
		return nil, err
	}
	logs, err := s.store.WorkerLogs(ctx, in.ID)
	logs.Lines = []bloom.LogLine{} // the caller already has them
	return &reply[bloom.WorkerLogs]{http.StatusOK, logs}, err
}

func (s *Server) claim(ctx context.Context, c *call, in *pathID) (*huma.StreamResponse, error) {
	if err := actsAs(c, in.ID); err != nil {
		return nil, err
	}
	var b claimBody
	if err := s.decode(c, limitBody, &b); err != nil {
		return nil, err
	}
	wait := time.Duration(b.WaitSec) * time.Second
	if wait > 0 {
		s.allowUntil(c.w, wait+30*time.Second)
	}
	r := contract.ClaimRequest{WorkerID: in.ID, InstanceID: b.InstanceID, MustName: isWorker(c), Max: b.Max, TTLSec: b.TTLSeconds, Held: b.Held, Usage: b.Usage}
	if wait == 0 {
		if err := s.countClaim(c, r.WorkerID); err != nil {
			return nil, err
		}
	}
	return lasting(c, func() {
		res, err := s.svc.Claim(ctx, r, wait)
		if err == nil && wait > 0 && len(res.Leases) > 0 {
			err = s.countClaim(c, r.WorkerID)
		}
		if err != nil {
			s.failure(ctx, c.id, err).write(c.w)
			return
		}
		if b.Forgotten != nil {
			if res.Forgotten, res.ForgottenAll, err = s.svc.Forgotten(ctx, *b.Forgotten, b.ForgottenID); err != nil && ctx.Err() == nil {
				s.log.WarnContext(ctx, "listing forgotten contexts for a worker failed", "error", err)
			}
		}
		writeJSON(c.w, http.StatusOK, res)
	})
}

// countClaim counts a claim that does not wait, or has tasks to send, for its worker until the call
// ends. The service ends waiting ones if they are too many.
func (s *Server) countClaim(c *call, worker string) error {
	done, ok := s.limits.claims.take(storable.Text(worker))
	if !ok {
		return &bloom.Error{Kind: bloom.KindRateLimited, Code: bloom.CodeRateLimited,
			Message: fmt.Sprintf("This worker has %d claims open, which is the most; read their answers first", dispatch.MaxPolls)}
	}
	c.finally(done)
	return nil
}

// allowUntil extends the write deadline of a long response to d from now, or removes
// it if d is 0. It removes the read deadline, because net/http would take an expired
// one for a disconnect.
func (s *Server) allowUntil(w http.ResponseWriter, d time.Duration) {
	rc := http.NewResponseController(w)
	_ = rc.SetReadDeadline(time.Time{})
	if d == 0 {
		_ = rc.SetWriteDeadline(time.Time{})
		return
	}
	_ = rc.SetWriteDeadline(time.Now().Add(d)) // real time, not the injected clock
}
