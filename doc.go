// Package bloom is the vocabulary of BLOOM Runtime, a durable runtime for LLM agent tasks: the
// nouns (Task, Lease, Worker, Artifact, Result, Event, Audit), their statuses, limits and errors, as
// clients and workers say them over the wire. What servers ask of their store is in
// internal/store/contract, the rules by which tasks, leases and workers change are in
// internal/lifecycle.
//
// A client posts a task. The runtime stores it and leases it to a worker node. The worker runs the
// claude command line, streams its events, and completes the lease with a result and an artifact.
// The guarantee is at-least-once execution with exactly one recorded outcome: every write of a
// worker names its lease, and a lease that is no longer current changes nothing.
//
// The package imports only the standard library. It knows no SQL, no HTTP server and no subprocess:
// everything else is an adapter or a loop around it. Continue with task.go and then
// internal/store/contract, internal/dispatch, internal/httpapi, internal/worker, internal/claude.
//
// All times on the wire are Unix milliseconds.
package bloom
