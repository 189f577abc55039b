package bloom

import (
	"cmp"
	"encoding/json"
	"time"
)

// This file is the rules by which a worker makes itself known and is heard of;
// report.go has those for what others say of it. Stores only read and write.

// ContactEvery is how seldom a worker's last contact is written: not once a task.
const ContactEvery = 5 * time.Second

// KnownWorker is a worker as a store keeps it, with what is known of its living
// process. The zero KnownWorker is one of which nothing is known.
type KnownWorker struct {
	Worker
	InstanceID   string // of the process that was last heard of; "" when none has said
	InstanceSeen int64  // when that was, Unix milliseconds
	Removed      bool   // by hand; a registration, here or at the control plane, brings it back

	PostedAt int64 // WorkerReport.PostedAt as last reported
}

// WorkerChange is what a rule made of a worker, and how it is told.
type WorkerChange struct {
	Worker  KnownWorker // after
	Created bool        // it was unknown, or had been removed
	Action  string      // the audit's action; empty when there is no news
	Detail  string      // one sentence for the audit
	Contact bool        // no news, but the last contact (LastHeartbeat, PostedAt) is worth writing
}

// AuditData is what the audit's entry of the change carries.
func (c WorkerChange) AuditData() json.RawMessage {
	return MustJSON(map[string]any{"status": c.Worker.Status, "draining": c.Worker.Draining})
}

// newWorker is a worker of which nothing is known but its name.
func newWorker(name string, now int64) KnownWorker {
	return KnownWorker{Worker: Worker{
		ID: name, NodeID: name, Status: WorkerUnknown, RegisteredAt: now, IPAddrs: []string{},
		AgentVersion: UnknownVersion, InstallMethod: UnknownInstall,
		Capabilities: Capabilities{ClaudeCLI: true}.Sane(),
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
	case w.InstanceID == "" || w.Removed || now-w.InstanceSeen >= OfflineAfter.Milliseconds():
		return false
	case instanceID == "":
		return mustName
	}
	return instanceID != w.InstanceID
}

// Silent reports that the next contact makes the worker online again.
func (w *KnownWorker) Silent() bool { return w.Status == WorkerOffline || w.Status == WorkerUnknown }

// RegisterWorker takes a direct registration in: was is what is known under its
// name. ErrWorkerConflict when another living process has the name. Whether it
// drains stands as it stood, for another process too, but for what the spec says
// of the control plane. now is in Unix milliseconds.
func RegisterWorker(was KnownWorker, s WorkerSpec, now int64) (WorkerChange, error) {
	if was.Rivals(s.InstanceID, s.MustName, now) {
		return WorkerChange{}, ErrWorkerConflict
	}
	c := WorkerChange{Worker: was, Action: ActionWorkerUpdated, Detail: "Registered again"}
	if was.ID == "" || was.Removed {
		c = WorkerChange{Worker: newWorker(s.Name, now).postedAt(was.PostedAt), Created: true, Action: ActionWorkerRegistered, Detail: "Registered"}
	}
	w := &c.Worker
	w.URL = s.URL
	w.Status = cmp.Or(s.Status, WorkerOnline)
	if !c.Created && w.Status == WorkerOffline && was.Status != WorkerOffline {
		c.Action, c.Detail = ActionWorkerOffline, "Said that it goes offline"
	}
	w.Capabilities = s.Capabilities.Sane()
	w.LastHeartbeat = &now
	w.IPAddrs = ownList(s.IPAddrs)
	w.AgentVersion, w.InstallMethod = cmp.Or(s.AgentVersion, UnknownVersion), cmp.Or(s.InstallMethod, UnknownInstall)
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
		c.Worker.Status = WorkerOnline
		c.Contact, c.Action, c.Detail = false, ActionWorkerOnline, "Heard of again"
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
		c.Action, c.Detail = ActionWorkerDrain, "Drained: takes no more work"
	default:
		c.Action, c.Detail = ActionWorkerDrain, "Undrained"
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
		c.Action, c.Detail = ActionWorkerDrain, "Drained at the control plane: takes no more work"
	default:
		c.Action, c.Detail = ActionWorkerDrain, "Undrained at the control plane"
	}
	return c
}

// SilenceWorker sets a worker offline that nobody has heard of for longer.
func SilenceWorker(was KnownWorker, longer time.Duration) WorkerChange {
	was.Status = WorkerOffline
	return WorkerChange{Worker: was, Action: ActionWorkerOffline, Detail: "Nobody has heard of it for more than " + longer.String()}
}

// RemoveWorker forgets a worker and its process.
func RemoveWorker(was KnownWorker) WorkerChange {
	was.Removed, was.Status, was.InstanceID, was.InstanceSeen = true, WorkerOffline, "", 0
	return WorkerChange{Worker: was, Action: ActionWorkerRemoved, Detail: "Removed"}
}
