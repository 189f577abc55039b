package lifecycle

import (
	"cmp"
	"encoding/json"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/audit"
	"github.com/bloom-runtime/bloom/internal/storable"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

// This file has the rules for registration and contact of workers; report.go has those for reports
// of the control plane.

// ContactInterval is the shortest interval at which a worker's contact is written, so that not
// every task causes a write.
const ContactInterval = 5 * time.Second

// KnownWorker is a worker as a store keeps it, with its process. The zero KnownWorker is an
// unknown worker.
type KnownWorker struct {
	bloom.Worker
	InstanceID   string // of the last process; "" when unknown
	InstanceSeen int64  // last contact of that process, Unix milliseconds
	Removed      bool   // manually; a registration, here or at the control plane, restores it

	PostedAt int64 // WorkerReport.PostedAt as last reported
}

// WorkerChange is the result of a rule for a worker, and how to record it.
type WorkerChange struct {
	Worker  KnownWorker // after
	Created bool        // the worker was unknown or removed
	Action  string      // the audit action; empty for no audit entry
	Detail  string      // one sentence for the audit
	Contact bool        // only the last contact (LastHeartbeat, PostedAt) must be written
}

// AuditData returns the data of the change's audit entry.
func (c WorkerChange) AuditData() json.RawMessage {
	return storable.MustJSON(map[string]any{"status": c.Worker.Status, "draining": c.Worker.Draining})
}

// newWorker returns a new worker with defaults.
func newWorker(name string, now int64) KnownWorker {
	return KnownWorker{Worker: bloom.Worker{
		ID: name, NodeID: name, Status: bloom.WorkerUnknown, RegisteredAt: now, IPAddrs: []string{}, Agents: []string{},
		AgentVersion: contract.UnknownVersion, InstallMethod: contract.UnknownInstall,
		Capabilities: sane(bloom.Capabilities{ClaudeCLI: true}),
	}}
}

func (w KnownWorker) postedAt(at int64) KnownWorker {
	w.PostedAt = max(w.PostedAt, at)
	return w
}

// ConflictsWith reports whether a caller must not act as the worker, because the worker's known
// process is alive and the caller is another one. A process that reported that it goes offline has
// stopped. A caller without an instanceID is refused only if
// mustName is set. now is in Unix milliseconds.
func (w *KnownWorker) ConflictsWith(instanceID string, mustName bool, now int64) bool {
	switch {
	case w.InstanceID == "" || w.Removed || w.Status == bloom.WorkerOffline || Silence(w.InstanceSeen, now) >= bloom.OfflineAfter.Milliseconds():
		return false
	case instanceID == "":
		return mustName
	}
	return instanceID != w.InstanceID
}

// Silent reports whether the next contact sets the worker online again.
func (w *KnownWorker) Silent() bool {
	return w.Status == bloom.WorkerOffline || w.Status == bloom.WorkerUnknown
}

// RegisterWorker processes a registration. was is the stored worker of that name. ErrWorkerConflict
// when another live instance has the name. Draining persists, even for a new process, except for
// what the spec reports about the control plane. now is in Unix milliseconds.
func RegisterWorker(was KnownWorker, s bloom.WorkerSpec, now int64) (WorkerChange, error) {
	if was.ConflictsWith(s.InstanceID, s.MustName, now) {
		return WorkerChange{}, bloom.ErrWorkerConflict
	}
	c := WorkerChange{Worker: was, Action: audit.ActionWorkerUpdated, Detail: "Registered again"}
	if was.ID == "" || was.Removed {
		c = WorkerChange{Worker: newWorker(s.Name, now).postedAt(was.PostedAt), Created: true, Action: audit.ActionWorkerRegistered, Detail: "Registered"}
	}
	w := &c.Worker
	w.URL = s.URL
	w.Status = cmp.Or(s.Status, bloom.WorkerOnline)
	if !c.Created && w.Status == bloom.WorkerOffline && was.Status != bloom.WorkerOffline {
		c.Action, c.Detail = audit.ActionWorkerOffline, "Reported that it goes offline"
	}
	w.Capabilities = sane(s.Capabilities)
	w.LastHeartbeat = &now
	w.IPAddrs, w.Agents = ownList(s.IPAddrs), ownList(s.Agents)
	w.AgentVersion, w.InstallMethod = cmp.Or(s.AgentVersion, contract.UnknownVersion), cmp.Or(s.InstallMethod, contract.UnknownInstall)
	w.OSInfo, w.Pause, w.Setup = s.OSInfo, s.Pause, s.Setup
	if id := s.InstanceID; id != "" {
		w.InstanceID, w.InstanceSeen = id, now
	}
	if s.Draining != nil {
		*w = w.drained(w.RuntimeDrain, *s.Draining)
	}
	return c, nil
}

// Contact returns the worker after a contact by its process, which the caller has checked with
// ConflictsWith; an empty instanceID means the known process. A contact sets a silent worker
// online, and only that is audited. Contacts within ContactInterval of the last one change nothing.
func (w *KnownWorker) Contact(instanceID string, now int64) WorkerChange {
	id := cmp.Or(instanceID, w.InstanceID)
	c := WorkerChange{Worker: *w}
	if !w.Silent() && id == w.InstanceID && w.InstanceSeen <= now && now-w.InstanceSeen < ContactInterval.Milliseconds() {
		return c
	}
	at := now // a copy, which most contacts do not need
	c.Worker.LastHeartbeat, c.Worker.InstanceID, c.Worker.InstanceSeen = &at, id, now
	c.Contact = true
	if w.Silent() {
		c.Worker.Status = bloom.WorkerOnline
		c.Contact, c.Action, c.Detail = false, audit.ActionWorkerOnline, "Contact again"
	}
	return c
}

// drained returns the worker with the drains of the runtime and the control plane: it takes no work
// while either is set, and each removes only its own.
func (w KnownWorker) drained(runtime, control bool) KnownWorker {
	w.RuntimeDrain, w.ControlDrain, w.Draining = runtime, control, runtime || control
	return w
}

// DrainWorker drains or undrains a worker at the runtime. Repeating it changes nothing.
func DrainWorker(was KnownWorker, drain bool) WorkerChange {
	c := WorkerChange{Worker: was.drained(drain, was.ControlDrain)}
	switch {
	case drain == was.RuntimeDrain:
	case drain:
		c.Action, c.Detail = audit.ActionWorkerDrain, "Drained: takes no more work"
	default:
		c.Action, c.Detail = audit.ActionWorkerDrain, "Undrained"
	}
	return c
}

// FollowDrain records whether the control plane drains a worker. Repeating it changes nothing.
func FollowDrain(was KnownWorker, drain bool) WorkerChange {
	c := WorkerChange{Worker: was.drained(was.RuntimeDrain, drain)}
	switch {
	case drain == was.ControlDrain:
	case drain:
		c.Action, c.Detail = audit.ActionWorkerDrain, "Drained at the control plane: takes no more work"
	default:
		c.Action, c.Detail = audit.ActionWorkerDrain, "Undrained at the control plane"
	}
	return c
}

// SilenceWorker sets a worker offline that has been silent for longer than d.
func SilenceWorker(was KnownWorker, d time.Duration) WorkerChange {
	was.Status = bloom.WorkerOffline
	return WorkerChange{Worker: was, Action: audit.ActionWorkerOffline, Detail: "No contact for more than " + d.String()}
}

// RemoveWorker removes a worker and its process.
func RemoveWorker(was KnownWorker) WorkerChange {
	was.Removed, was.Status, was.InstanceID, was.InstanceSeen = true, bloom.WorkerOffline, "", 0
	return WorkerChange{Worker: was, Action: audit.ActionWorkerRemoved, Detail: "Removed"}
}
