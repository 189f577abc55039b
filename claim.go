package bloom

import (
	"time"
)

// LeaseRequest asks to lease one task now.
type LeaseRequest struct {
	TaskID   string
	WorkerID string // empty: the store picks
	TTLSec   int    // 0: DefaultLeaseTTLSec
	Actor    string
}

// ClaimRequest is one poll of a worker: it renews the leases the worker holds, reports which are
// lost or must be cancelled, and takes new tasks.
type ClaimRequest struct {
	WorkerID   string
	InstanceID string   // of the process; another live instance is ErrWorkerConflict
	MustName   bool     // an empty InstanceID is ErrWorkerConflict while a known instance is alive
	Max        int      // new tasks wanted, 0 for none; never more than the worker's free capacity
	TTLSec     int      // of new leases; 0: DefaultLeaseTTLSec
	Held       []string // lease ids the worker holds
	// Usage is what held leases have used so far, by id. It is recorded with their renewal.
	Usage map[string]Usage
	// Renew renews the held leases. A long poll renews once and reads often. A poll that does not
	// renew and finds a lease expired takes nothing new: its worker may be gone and would be given
	// again what it has just lost.
	Renew bool
}

// LeasedTask is a task and the lease it is held under.
type LeasedTask struct {
	Lease Lease `json:"lease"`
	Task  Task  `json:"task"`
}

// Renewal is the new expiry of a held lease.
type Renewal struct {
	LeaseID   string `json:"lease_id"`
	ExpiresAt int64  `json:"expires_at" doc:"Unix milliseconds"`
}

// ClaimResult is the answer to a claim. Leases holds new leases and those the worker was given but
// did not name. A lease that it named and that could not be renewed now is neither in Renewed nor
// in Lost: it is the worker's until it expires.
type ClaimResult struct {
	Leases  []LeasedTask `json:"leases" nullable:"false"`
	Renewed []Renewal    `json:"renewed" nullable:"false"`
	Lost    []string     `json:"lost" nullable:"false"`
	Cancel  []string     `json:"cancel" nullable:"false"`
	Drain   bool         `json:"drain"`
	// Forgotten are contexts whose sessions the worker is to forget, for a worker that
	// said how far it has come.
	Forgotten []ForgottenContext `json:"forgotten,omitempty" nullable:"false" doc:"Contexts to forget; the last one's seq is the next claim's forgotten_after"`

	// ForgottenAll means that Forgotten begins anew: what the worker said is not of this database.
	ForgottenAll bool `json:"forgotten_all,omitempty" doc:"forgotten begins anew, because forgotten_after and forgotten_id are not of this database. Contexts in it that are used again are not to be deleted"`

	Labels []string `json:"-"` // that the worker carries
}

// Urgent reports whether a long poll must come back now.
func (r ClaimResult) Urgent() bool {
	return len(r.Leases) > 0 || len(r.Lost) > 0 || len(r.Cancel) > 0 || r.Drain
}

// HeartbeatResult is the answer to a heartbeat.
type HeartbeatResult struct {
	Lease           Lease `json:"lease"`
	ExpiresAt       int64 `json:"expires_at" doc:"Unix milliseconds"`
	CancelRequested bool  `json:"cancel_requested"`
}

// Reaped counts the leases that one Reap expired, by what became of their tasks.
type Reaped struct {
	Requeued, Dead, Cancelled int
}

// Count adds an expired lease; after is its task's new status.
func (r *Reaped) Count(after TaskStatus) {
	switch after {
	case TaskDead:
		r.Dead++
	case TaskCancelled:
		r.Cancelled++
	default:
		r.Requeued++
	}
}

// Total returns the number of expired leases.
func (r Reaped) Total() int { return r.Requeued + r.Dead + r.Cancelled }

// StickyGrace is how long a queued task waits for the worker that last held its
// context before anyone may take it.
const StickyGrace = 2 * time.Second
