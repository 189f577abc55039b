package bloom

import (
	"cmp"
	"slices"
	"unicode/utf8"
)

// This file is the rules by which what the control plane says of a worker is
// merged with what is known of it; stores only read and write.

// SyncWorker takes a report of the control plane in: was is what is known under
// its name. A worker that was removed stays removed until it is posted anew. What changes nothing but the
// last contact is no news. now is in Unix milliseconds.
func SyncWorker(was KnownWorker, r WorkerReport, now int64) WorkerChange {
	if r.Name == "" || utf8.RuneCountInString(r.Name) > MaxWorkerName || was.Removed && r.PostedAt <= was.PostedAt {
		return WorkerChange{Worker: was}
	}
	if was.ID == "" || was.Removed {
		is := newWorker(CleanText(r.Name), now).postedAt(r.PostedAt)
		is.Worker = is.reported(r, false, now)
		return WorkerChange{Worker: is, Created: true, Action: ActionWorkerRegistered, Detail: "Reported by the control plane"}
	}
	c := WorkerChange{Worker: was.postedAt(r.PostedAt)}
	c.Worker.Worker = was.reported(r, was.InstanceID != "" && Recent(was.InstanceSeen, now), now)
	switch status := c.Worker.Status; {
	case was.Alike(c.Worker.Worker):
		c.Contact = c.Worker.LastContact()-was.LastContact() >= ContactEvery.Milliseconds() || c.Worker.PostedAt != was.PostedAt
	case status == was.Status:
		c.Action, c.Detail = ActionWorkerUpdated, "Updated by the control plane"
	case status == WorkerOnline:
		c.Action, c.Detail = ActionWorkerOnline, "Reported online"
	case status == WorkerOffline:
		c.Action, c.Detail = ActionWorkerOffline, "Reported offline"
	default:
		c.Action, c.Detail = ActionWorkerUpdated, "Reported "+string(status)
	}
	return c
}

// reported is the worker with what the control plane says of it. A worker that
// speaks with the runtime itself (own) is believed before those who speak of it:
// what it can do it says itself, and it is not offline because others lost sight
// of it. One that is said to be there but was heard of by nobody for longer than
// OfflineAfter is offline, as MarkSilent has it.
func (w Worker) reported(r WorkerReport, own bool, now int64) Worker {
	w.URL = cmp.Or(CleanText(r.URL), w.URL)
	w.AgentVersion = cmp.Or(CleanText(r.AgentVersion), w.AgentVersion)
	w.OSInfo = cmp.Or(CleanText(r.OSInfo), w.OSInfo)
	w.InstallMethod = cmp.Or(CleanText(r.InstallMethod), w.InstallMethod)
	w.DBSHA = cmp.Or(CleanText(r.DBSHA), w.DBSHA)
	w.ObsCount = cmp.Or(r.ObsCount, w.ObsCount)
	if len(r.IPAddrs) > 0 {
		w.IPAddrs = cleanList(r.IPAddrs)
	}
	if r.Capabilities != nil && !own {
		w.Capabilities = r.Capabilities.Sane()
	}
	seen := min(r.LastSeen, now) // another machine's clock may run ahead
	if seen == 0 && r.Status != WorkerOffline {
		seen = now // posted once and kept as it was posted
	}
	if seen > 0 && (w.LastHeartbeat == nil || seen > *w.LastHeartbeat) {
		w.LastHeartbeat = &seen
	}
	status := cmp.Or(r.Status, w.Status)
	switch {
	case own && (status == WorkerOffline || status == WorkerUnknown):
		status = w.Status
	case status != WorkerOffline && !Recent(w.LastContact(), now):
		status = WorkerOffline
	}
	w.Status = status
	return w
}

// DrainOrder is the control plane's last word on whether a worker takes work.
type DrainOrder struct {
	Drain bool `json:"drain"`
	// Number tells a newer word from an older one: it grows with each, for as long
	// as the control plane remembers the worker. 0: never ordered, or given by a
	// control plane that does not count. Below 0, in what is remembered: the control
	// plane knows of no order any more, and this was the last one, without the sign.
	Number int64 `json:"number"`
	// Told marks the word of a worker that it was given the order: it counts for less
	// than the control plane's own, see FollowDrain.
	Told bool `json:"-"`
}

// NewerThan reports whether the order is news to one who carried out last. Orders
// without a number are news when they differ, and so is that none is known any more,
// which the zero order says.
func (o DrainOrder) NewerThan(last DrainOrder) bool {
	switch {
	case o == DrainOrder{}:
		return last.Drain || last.Number > 0
	case o.Number == 0:
		return o.Drain != last.Drain
	case last.Number < 0: // a control plane that lost what it knew may count anew
		return o.Number > -last.Number || o.Drain && o.Number < -last.Number
	}
	return o.Number > last.Number || o.Number == last.Number && o.Drain != last.Drain
}

// Following is what to remember after o was carried out. A number never shrinks, so
// that an order that was long under way is not taken for a new one; but nothing is
// remembered when no order is known any more: each is news then.
func (o DrainOrder) Following(last DrainOrder) DrainOrder {
	switch {
	case o == DrainOrder{}:
		return o
	case o.Number == 0:
		return DrainOrder{Drain: o.Drain, Number: last.Last()}
	}
	return DrainOrder{Drain: o.Drain, Number: max(o.Number, last.Number)}
}

// Last is the number of the last order that was known.
func (o DrainOrder) Last() int64 { return max(o.Number, -o.Number) }

// Recent reports whether a contact at a time is no longer ago than OfflineAfter;
// both are in Unix milliseconds.
func Recent(at, now int64) bool { return now-at <= OfflineAfter.Milliseconds() }

// LastContact is when the worker was last heard of from any side, or registered.
func (w Worker) LastContact() int64 {
	if w.LastHeartbeat == nil {
		return w.RegisteredAt
	}
	return *w.LastHeartbeat
}

// Alike reports whether two states of a worker differ in nothing that a report
// can change but the last contact.
func (w Worker) Alike(b Worker) bool {
	return w.URL == b.URL && w.Status == b.Status && w.AgentVersion == b.AgentVersion && w.OSInfo == b.OSInfo &&
		w.InstallMethod == b.InstallMethod && w.DBSHA == b.DBSHA && w.ObsCount == b.ObsCount && slices.Equal(w.IPAddrs, b.IPAddrs) &&
		w.Capabilities.ClaudeCLI == b.Capabilities.ClaudeCLI && w.Capabilities.MaxConcurrency == b.Capabilities.MaxConcurrency &&
		slices.Equal(w.Capabilities.Labels, b.Capabilities.Labels)
}

// Sane is the capabilities within their limits, with labels that a store can keep.
func (c Capabilities) Sane() Capabilities {
	c.MaxConcurrency = min(max(1, c.MaxConcurrency), MaxConcurrency)
	c.Labels = cleanList(c.Labels)
	return c
}

// cleanList is a copy with clean text, never nil.
func cleanList(list []string) []string {
	clean := make([]string, len(list))
	for i, s := range list {
		clean[i] = CleanText(s)
	}
	return clean
}
