package lifecycle

import (
	"cmp"
	"encoding/json"
	"time"

	"github.com/bloom-runtime/bloom"
)

// This file is how a worker registers and keeps in contact; report.go is what others say
// of it.

// ContactEvery is how seldom a worker's last contact is written: not once a task.
const ContactEvery = 5 * time.Second

// KnownWorker is a worker as a store keeps it, with what is known of its living
// process. The zero KnownWorker is one of which nothing is known.
type KnownWorker struct {
	bloom.Worker
	InstanceID   string // of the process that was last heard of; "" when none has said
	InstanceSeen int64  // when that was, Unix milliseconds
	Removed      bool   // by hand; a registration, here or at the control plane, brings it back

	PostedAt int64 // WorkerReport.PostedAt as last reported
}

// WorkerChange is what a rule made of a worker, and how it is recorded.
type WorkerChange struct {
	Worker  KnownWorker // after
	Created bool        // it was unknown, or had been removed
	Action  string      // the audit's action; empty when there is no news
	Detail  string      // one sentence for the audit
	Contact bool        // no news, but the last contact (LastHeartbeat, PostedAt) is worth writing
}

// AuditData is what the audit's entry of the change carries.
func (c WorkerChange) AuditData() json.RawMessage {
	return bloom.MustJSON(map[string]any{"status": c.Worker.Status, "draining": c.Worker.Draining})
}

// newWorker is a worker of which nothing is known but its name.
func newWorker(name string, now int64) KnownWorker {
	return KnownWorker{Worker: bloom.Worker{
		ID: name, NodeID: name, Status: bloom.WorkerUnknown, RegisteredAt: now, IPAddrs: []string{}, Agents: []string{},
		AgentVersion: bloom.UnknownVersion, InstallMethod: bloom.UnknownInstall,
		Capabilities: sane(bloom.Capabilities{ClaudeCLI: true}),
	}}
}

func (w KnownWorker) postedAt(at int64) KnownWorker {
	w.PostedAt = max(w.PostedAt, at)
	return w
}

// Rivals reports that a caller must not act as the worker, because the worker's
// known process is alive and the caller is not that process. A caller that sends
// no instanceID is refused only if mustName is set. now is in Unix milliseconds.
func (w *KnownWorker) Rivals(instanceID string, mustName bool, now int64) bool {
	switch {
	case w.InstanceID == "" || w.Removed || now-w.InstanceSeen >= bloom.OfflineAfter.Milliseconds():
		return false
	case instanceID == "":
		return mustName
	}
	return instanceID != w.InstanceID
}

// Silent reports that the next contact makes the worker online again.
func (w *KnownWorker) Silent() bool {
	return w.Status == bloom.WorkerOffline || w.Status == bloom.WorkerUnknown
}

// RegisterWorker takes a direct registration in: was is what is known under its
// name. ErrWorkerConflict when another living process has the name. Whether it
// drains stands as it stood, for another process too, but for what the spec says
// of the control plane. now is in Unix milliseconds.
func RegisterWorker(was KnownWorker, s bloom.WorkerSpec, now int64) (WorkerChange, error) {
	if was.Rivals(s.InstanceID, s.MustName, now) {
		return WorkerChange{}, bloom.ErrWorkerConflict
	}
	c := WorkerChange{Worker: was, Action: bloom.ActionWorkerUpdated, Detail: "Registered again"}
	if was.ID == "" || was.Removed {
		c = WorkerChange{Worker: newWorker(s.Name, now).postedAt(was.PostedAt), Created: true, Action: bloom.ActionWorkerRegistered, Detail: "Registered"}
	}
	w := &c.Worker
	w.URL = s.URL
	w.Status = cmp.Or(s.Status, bloom.WorkerOnline)
	if !c.Created && w.Status == bloom.WorkerOffline && was.Status != bloom.WorkerOffline {
		c.Action, c.Detail = bloom.ActionWorkerOffline, "Said that it goes offline"
	}
	w.Capabilities = sane(s.Capabilities)
	w.LastHeartbeat = &now
	w.IPAddrs, w.Agents = ownList(s.IPAddrs), ownList(s.Agents)
	w.AgentVersion, w.InstallMethod = cmp.Or(s.AgentVersion, bloom.UnknownVersion), cmp.Or(s.InstallMethod, bloom.UnknownInstall)
	w.OSInfo = s.OSInfo
	if id := s.InstanceID; id != "" {
		w.InstanceID, w.InstanceSeen = id, now
	}
	if s.Draining != nil {
		*w = w.drained(w.RuntimeDrain, *s.Draining)
	}
	return c, nil
}

// Heard is the worker after a sign of life of its process, which the caller has
// found not to rival another; an empty instanceID is the known one's. A silent
// worker is online again by it, and only that is audited. Contacts that come
// sooner than ContactEvery after the last one change nothing.
func (w *KnownWorker) Heard(instanceID string, now int64) WorkerChange {
	id := cmp.Or(instanceID, w.InstanceID)
	c := WorkerChange{Worker: *w}
	if !w.Silent() && id == w.InstanceID && w.InstanceSeen <= now && now-w.InstanceSeen < ContactEvery.Milliseconds() {
		return c
	}
	at := now // a copy of its own: most contacts are too soon to need one
	c.Worker.LastHeartbeat, c.Worker.InstanceID, c.Worker.InstanceSeen = &at, id, now
	c.Contact = true
	if w.Silent() {
		c.Worker.Status = bloom.WorkerOnline
		c.Contact, c.Action, c.Detail = false, bloom.ActionWorkerOnline, "Heard of again"
	}
	return c
}

// drained is the worker with what the runtime and the control plane say of draining:
// it takes nothing while either says so, and each undrains only what it drained.
func (w KnownWorker) drained(runtime, control bool) KnownWorker {
	w.RuntimeDrain, w.ControlDrain, w.Draining = runtime, control, runtime || control
	return w
}

// DrainWorker drains a worker at the runtime, or undrains it there. The same again
// changes nothing.
func DrainWorker(was KnownWorker, drain bool) WorkerChange {
	c := WorkerChange{Worker: was.drained(drain, was.ControlDrain)}
	switch {
	case drain == was.RuntimeDrain:
	case drain:
		c.Action, c.Detail = bloom.ActionWorkerDrain, "Drained: takes no more work"
	default:
		c.Action, c.Detail = bloom.ActionWorkerDrain, "Undrained"
	}
	return c
}

// FollowDrain takes in whether the control plane drains a worker. The same again
// changes nothing.
func FollowDrain(was KnownWorker, drain bool) WorkerChange {
	c := WorkerChange{Worker: was.drained(was.RuntimeDrain, drain)}
	switch {
	case drain == was.ControlDrain:
	case drain:
		c.Action, c.Detail = bloom.ActionWorkerDrain, "Drained at the control plane: takes no more work"
	default:
		c.Action, c.Detail = bloom.ActionWorkerDrain, "Undrained at the control plane"
	}
	return c
}

// SilenceWorker sets a worker offline that nobody has heard of for longer.
func SilenceWorker(was KnownWorker, longer time.Duration) WorkerChange {
	was.Status = bloom.WorkerOffline
	return WorkerChange{Worker: was, Action: bloom.ActionWorkerOffline, Detail: "Nobody has heard of it for more than " + longer.String()}
}

// RemoveWorker forgets a worker and its process.
func RemoveWorker(was KnownWorker) WorkerChange {
	was.Removed, was.Status, was.InstanceID, was.InstanceSeen = true, bloom.WorkerOffline, "", 0
	return WorkerChange{Worker: was, Action: bloom.ActionWorkerRemoved, Detail: "Removed"}
}
