package bloom

import "time"

// LeaseStatus is the status of a lease.
type LeaseStatus string

// The statuses of a lease. A completion always ends its lease as released;
// failed is read for compatibility and never written.
const (
	LeaseActive   LeaseStatus = "active"
	LeaseExpired  LeaseStatus = "expired"
	LeaseReleased LeaseStatus = "released"
	LeaseFailed   LeaseStatus = "failed"
)

// Limits of a lease, in seconds.
const (
	DefaultLeaseTTLSec = 300
	MinLeaseTTLSec     = 1
	MaxLeaseTTLSec     = 7200
)

// MaxReleaseDelay bounds how long a released task may be delayed. It exceeds the longest rate limit
// of a model provider, which is a week.
const MaxReleaseDelay = 8 * 24 * time.Hour

// Lease binds one task to one worker for a limited time. It stays valid until it is reaped: a
// heartbeat that comes late but before the reaper renews it.
type Lease struct {
	ID            string      `json:"id" format:"uuid"`
	TaskID        string      `json:"task_id" format:"uuid"`
	WorkerID      string      `json:"worker_id"`
	StartedAt     int64       `json:"started_at" doc:"Unix milliseconds"`
	ExpiresAt     int64       `json:"expires_at" doc:"Unix milliseconds"`
	TTLSeconds    int         `json:"ttl_seconds"`
	Status        LeaseStatus `json:"status" enum:"active,expired,released,failed"`
	LastHeartbeat int64       `json:"last_heartbeat" doc:"The worker's last report, its completion or release included; Unix milliseconds"`
	ContextID     *string     `json:"context_id"`
	Epoch         int64       `json:"epoch" doc:"The task's lease number, for fencing"`
	Usage         Usage       `json:"usage,omitzero" doc:"What the attempt used: as last reported while it runs and if its worker vanished, as completed otherwise"`
}
