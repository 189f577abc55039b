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

	Followed DrainOrder // the control plane's order that was carried out last
	Told     int64      // the number of the order that was carried out last by the worker's word alone
	PostedAt int64      // WorkerReport.PostedAt as last reported
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
	return CleanText(instanceID) != w.InstanceID
}

// Silent reports that the next contact makes the worker online again.
func (w *KnownWorker) Silent() bool { return w.Status == WorkerOffline || w.Status == WorkerUnknown }

// RegisterWorker takes a direct registration in: was is what is known under its
// name. ErrWorkerConflict when another living process has the name. An order to
// drain stands as it stood, for another process too: it was given to the worker.
// now is in Unix milliseconds.
func RegisterWorker(was KnownWorker, s WorkerSpec, now int64) (WorkerChange, error) {
	if was.Rivals(s.InstanceID, s.MustName, now) {
		return WorkerChange{}, ErrWorkerConflict
	}
	c := WorkerChange{Worker: was, Action: ActionWorkerUpdated, Detail: "Registered again"}
	if was.ID == "" || was.Removed {
		c = WorkerChange{Worker: newWorker(CleanText(s.Name), now).postedAt(was.PostedAt), Created: true, Action: ActionWorkerRegistered, Detail: "Registered"}
	}
	w := &c.Worker
	w.URL = CleanText(s.URL)
	w.Status = cmp.Or(s.Status, WorkerOnline)
	if !c.Created && w.Status == WorkerOffline && was.Status != WorkerOffline {
		c.Action, c.Detail = ActionWorkerOffline, "Said that it goes offline"
	}
	w.Capabilities = s.Capabilities.Sane()
	w.LastHeartbeat = &now
	w.IPAddrs = cleanList(s.IPAddrs)
	w.AgentVersion, w.InstallMethod = cmp.Or(CleanText(s.AgentVersion), UnknownVersion), cmp.Or(CleanText(s.InstallMethod), UnknownInstall)
	w.OSInfo = CleanText(s.OSInfo)
	if id := CleanText(s.InstanceID); id != "" {
		w.InstanceID, w.InstanceSeen = id, now
	}
	return c, nil
}

// Heard is the worker after a sign of life of its process, which the caller has
// found not to rival another; an empty instanceID is the known one's. A silent
// worker is online again by it, and only that is audited. Contacts that come
// sooner than ContactEvery after the last one change nothing.
func (w *KnownWorker) Heard(instanceID string, now int64) WorkerChange {
	id := cmp.Or(CleanText(instanceID), w.InstanceID)
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

// ToldOrder is the order to drain that a registration tells of: one that was given
// elsewhere, and is carried out here before the control plane is read. ok is false
// when it tells of none. A worker's word begins an order and never ends one, or
// whoever has its key could lift what an operator ordered: the end is for the one
// to tell who gave the order, here or at the control plane.
func (s WorkerSpec) ToldOrder() (o DrainOrder, ok bool) {
	if s.Draining == nil || !*s.Draining {
		return DrainOrder{}, false
	}
	return DrainOrder{Drain: true, Number: s.DrainOrder, Told: true}, true
}

// DrainWorker orders a worker to take no more work, or lifts the order. The same
// order again changes nothing.
func DrainWorker(was KnownWorker, drain bool) WorkerChange {
	c := WorkerChange{Worker: was}
	if was.Draining == drain {
		return c
	}
	c.Worker.Draining = drain
	c.Action, c.Detail = ActionWorkerDrain, "May take work again"
	if drain {
		c.Detail = "Ordered to take no more work"
	}
	return c
}

// FollowDrain carries out an order of the control plane's. ok is false when that
// order, or a newer one, was carried out before; then nothing changes. Otherwise
// the worker is to be written even when there is nothing to tell.
//
// Of an order that a worker told of only the number is remembered, so that it is
// carried out once, and apart from the control plane's: one that was made up must
// neither be what the control plane then seems to have lifted, and with it what was
// ordered here, nor make its next orders seem old. It becomes the control plane's
// when that says the same.
//
// An order that the control plane knows no more is over, and news if it comes back,
// as with the address of another control plane that is taken back. When it was lifted
// here, that stands: then only another number is news, be it a smaller one.
func FollowDrain(was KnownWorker, o DrainOrder) (c WorkerChange, ok bool) {
	last := was.Followed
	switch {
	case o.Told && (o.Number == was.Told || o.Number <= last.Last()), !o.Told && !o.NewerThan(last):
		return WorkerChange{Worker: was}, false
	case o.Told:
		was.Told = o.Number
		return DrainWorker(was, o.Drain), true
	case o == DrainOrder{} && !(last.Drain && was.Draining):
		was.Followed = DrainOrder{Number: -last.Number}
		return WorkerChange{Worker: was}, true
	}
	was.Followed = o.Following(last)
	known := o.Drain && o.Number > 0 && o.Number == was.Told
	// An older word that was long under way may lift what the worker told of since:
	// that is news then, unless it was lifted here before.
	if o.Number >= was.Told || !o.Drain && was.Draining {
		was.Told = 0
	}
	if known {
		return WorkerChange{Worker: was}, true // what was said here since the worker told of it stands
	}
	return DrainWorker(was, o.Drain), true
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
