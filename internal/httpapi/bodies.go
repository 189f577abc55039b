package httpapi

import (
	"strconv"

	"github.com/bloom-runtime/bloom"
)

// claimBody is a worker's long poll.
type claimBody struct {
	InstanceID string                 `json:"instance_id" required:"false" maxLength:"128" doc:"Identifies the worker's process"`
	Max        int                    `json:"max" required:"false" minimum:"0" maximum:"32" default:"0" doc:"How many new tasks the worker can take; 0 only renews and waits"`
	WaitSec    int                    `json:"wait_sec" required:"false" minimum:"0" maximum:"60" default:"0" doc:"How long to wait for changes, in seconds"`
	Held       []string               `json:"held" required:"false" nullable:"false" maxItems:"256" doc:"Leases the worker holds"`
	Usage      map[string]bloom.Usage `json:"usage" required:"false" nullable:"false" maxProperties:"256" doc:"What held leases have used so far, by lease id"`
	TTLSeconds int                    `json:"ttl_seconds" required:"false" minimum:"1" maximum:"7200" default:"300" doc:"Of new leases"`
	// Forgotten is the last forgotten context that the worker knows of.
	Forgotten   *int64 `json:"forgotten_after" required:"false" minimum:"0" doc:"The last seq of forgotten that the worker knows; absent: forgotten is not listed"`
	ForgottenID string `json:"forgotten_id" required:"false" doc:"The id of the context with that seq; if it has another one, forgotten begins anew"`
}

// leaseBody asks to lease one task.
type leaseBody struct {
	WorkerID   string `json:"worker_id" required:"false" maxLength:"128" doc:"Empty: the runtime picks"`
	TTLSeconds int    `json:"ttl_seconds" required:"false" minimum:"1" maximum:"7200" default:"300"`
}

// heartbeatBody names the lease that a heartbeat renews.
type heartbeatBody struct {
	LeaseID string       `json:"lease_id" required:"false" doc:"Absent: the task's active lease"`
	Usage   *bloom.Usage `json:"usage" required:"false" doc:"What the attempt has used so far"`
}

// configBody sets the control plane's address and admin key.
type configBody struct {
	MembridgeURL string `json:"membridge_server_url" minLength:"1" maxLength:"2048"`
	AdminKey     string `json:"admin_key" minLength:"1" maxLength:"1024"`
}

// drainBody drains or undrains a worker at the runtime.
type drainBody struct {
	Drain bool `json:"drain" required:"false" default:"true"`
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }
