// Package worker is the worker's side of the runtime. It claims tasks up to its
// free slots, runs each with a Runner, sends the task's events, renews its
// leases, and delivers the outcomes.
//
// A worker learns what to do from one long poll, the claim. Separate heartbeats
// renew only the leases that would expire before the next claim. A worker relies
// on a lease for less than its TTL, measured on its own monotonic clock from
// before the request that renewed it. When that time is over it stops the work,
// because another worker may have the task by then.
//
// The state folder holds what must survive the process: the instance id, so that
// the server recognizes a restarted worker; the journal of leases whose work has
// begun, so that no lease's work begins twice; and the outbox of outcomes that
// the server has not acknowledged.
//
// The package starts no subprocess and imports no server package: it reaches the
// runtime only through package client.
package worker
