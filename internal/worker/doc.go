// Package worker is the node's side of the runtime: it claims tasks up to its
// free slots, runs each with a Runner, sends what happens as it comes, renews
// its leases, and delivers how each ended.
//
// One long poll, the claim, is the whole conversation about what to do; single
// heartbeats only fill the gaps of leases that are short against it. A worker
// believes in a lease for less than its TTL, measured on its own monotonic
// clock from before the request that renewed it, and stops the work when that
// time is over: by then somebody else may have the task.
//
// What must survive the process lies in the state folder: the instance's id
// (so that a restarted worker is taken for the same one), the journal of leases
// whose work was begun (so that no lease's work is ever begun twice), and the
// outbox of outcomes that the server has not acknowledged yet.
//
// The package knows no subprocess and no server package: it speaks to the
// runtime through package client alone.
package worker
