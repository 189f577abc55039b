package bloom

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
