package httpapi

import (
	"context"
	"net/http"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/auth"
	"github.com/bloom-runtime/bloom/internal/storable"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

// leased is the response to a lease.
type leased struct {
	Lease  bloom.Lease  `json:"lease"`
	Worker bloom.Worker `json:"worker"`
}

type leaseFilter struct {
	Paging
	Status   string `query:"status" enum:"active,expired,released,failed"`
	TaskID   string `query:"task_id"`
	WorkerID string `query:"worker_id"`
}

func (s *Server) leaseRoutes() {
	handle(s, route{method: http.MethodPost, path: tasksPath + "/{id}/lease", id: "lease-task", summary: "Lease a task to a worker now", tag: "leases", status: http.StatusCreated, body: leaseBody{}}, s.leaseTask)
	handle(s, route{method: http.MethodPost, path: tasksPath + "/{id}/heartbeat", id: "heartbeat", summary: "Renew a lease; the first heartbeat sets the task running", tag: "leases", body: heartbeatBody{}}, s.heartbeat)
	handle(s, route{method: http.MethodPost, path: tasksPath + "/{id}/complete", id: "complete-task", summary: "Record the outcome of a lease", tag: "leases", body: bloom.Completion{}}, s.complete)
	handle(s, route{method: http.MethodPost, path: tasksPath + "/{id}/release", id: "release-task", large: true, summary: "Release an unfinished task; the attempt is refunded", tag: "leases", body: bloom.ReleaseSpec{}}, s.release)
	handle(s, route{method: http.MethodGet, path: runtimePath + "/leases", id: "list-leases", unpaged: true, summary: "Leases, newest first", tag: "leases"}, s.listLeases)
}

func (s *Server) leaseTask(ctx context.Context, c *call, in *pathID) (*reply[leased], error) {
	var b leaseBody
	if err := s.decode(c, limitBody, &b); err != nil {
		return nil, err
	}
	lease, worker, err := s.store.LeaseTask(ctx, contract.LeaseRequest{TaskID: in.ID, WorkerID: storable.Text(b.WorkerID), TTLSec: b.TTLSeconds, Actor: c.caller.Name})
	return &reply[leased]{http.StatusCreated, leased{lease, worker}}, err
}

// isWorker reports whether the caller has a worker's key. Such a caller has to prove
// which worker it is: by the process's instance id, and by lease ids, which no route
// shows to other workers.
func isWorker(c *call) bool { return c.caller.Role == auth.RoleWorker }

// actorOf returns the actor for the audit of what workers do. Workers may share a key, so
// a worker's key does not identify one, nor does a request without a key: then the actor
// is worker, or the lease's worker if that is empty.
func actorOf(c *call, worker string) string {
	if isWorker(c) || c.caller.ID == "" {
		return worker
	}
	return c.caller.Name
}

var errOtherWorker = &bloom.Error{Kind: bloom.KindForbidden, Code: bloom.CodeForbidden, Message: "This key is bound to another worker"}

// actsAs refuses a key that is bound to another worker.
func actsAs(c *call, worker string) error {
	if c.caller.Worker != "" && c.caller.Worker != worker {
		return errOtherWorker
	}
	return nil
}

// mayUse requires a worker's key to name its lease, because only the lease
// distinguishes a stale worker from the present one. A key that is bound to a worker
// may only use that worker's leases.
func (s *Server) mayUse(ctx context.Context, c *call, taskID, leaseID string) error {
	if leaseID == "" && isWorker(c) {
		return bloom.Invalid("A worker must name its lease", bloom.FieldError{Field: "lease_id", Message: "must not be empty"})
	}
	if c.caller.Worker == "" {
		return nil
	}
	holder, err := s.svc.Holder(ctx, taskID, leaseID)
	if err != nil {
		return err
	}
	return actsAs(c, holder)
}

func (s *Server) heartbeat(ctx context.Context, c *call, in *pathID) (*reply[bloom.HeartbeatResult], error) {
	var b heartbeatBody
	if err := s.decode(c, limitBody, &b); err != nil {
		return nil, err
	}
	if err := s.mayUse(ctx, c, in.ID, b.LeaseID); err != nil {
		return nil, err
	}
	if b.LeaseID != "" && !storable.IsID(b.LeaseID) {
		return nil, bloom.ErrLeaseLost
	}
	res, err := s.store.Heartbeat(ctx, in.ID, b.LeaseID, b.Usage)
	return &reply[bloom.HeartbeatResult]{http.StatusOK, res}, err
}

func (s *Server) complete(ctx context.Context, c *call, in *pathID) (*reply[bloom.Completed], error) {
	var b bloom.Completion
	if err := s.decodeChecked(c, limitComplete, &b, func(beginning []byte) error {
		return s.svc.CheckCompletable(ctx, in.ID, leaseIn(beginning), c.caller.Name)
	}); err != nil {
		return nil, err
	}
	if err := s.mayUse(ctx, c, in.ID, b.LeaseID); err != nil {
		return nil, err
	}
	done, err := s.svc.Complete(ctx, in.ID, b, actorOf(c, ""))
	return &reply[bloom.Completed]{http.StatusOK, done}, err
}

func (s *Server) release(ctx context.Context, c *call, in *pathID) (*reply[bloom.Task], error) {
	var b bloom.ReleaseSpec
	if err := s.decode(c, limitBody, &b); err != nil {
		return nil, err
	}
	if err := s.mayUse(ctx, c, in.ID, b.LeaseID); err != nil {
		return nil, err
	}
	return taskReply(s.svc.Release(ctx, in.ID, b, actorOf(c, "")))
}

func (s *Server) listLeases(ctx context.Context, c *call, in *leaseFilter) (*page[bloom.Lease], error) {
	p, err := in.page()
	if err != nil {
		return nil, err
	}
	status := bloom.LeaseStatus(in.Status)
	if err := checkFilter("status", status, bloom.LeaseActive, bloom.LeaseExpired, bloom.LeaseReleased, bloom.LeaseFailed); err != nil {
		return nil, err
	}
	leases, next, err := s.lists.Leases(ctx, bloom.LeaseQuery{Status: status, TaskID: in.TaskID, WorkerID: in.WorkerID, Page: in.whole(p)})
	return paged(c, leases, next), err
}
