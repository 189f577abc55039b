// Package bloom is the vocabulary of BLOOM Runtime, a durable runtime for LLM
// agent tasks: the nouns (Task, Lease, Worker, Artifact, Result, Event, Audit),
// their limits and errors, and the contracts that a store (store.go) and a blob
// store (blob.go) keep. The rules by which tasks, leases and workers change are in
// internal/lifecycle.
//
// A client posts a task. The runtime stores it and leases it to a worker node;
// the worker runs the claude command line, streams what happens, and completes
// the lease with a result and an artifact. The promise is at-least-once
// execution with exactly one recorded outcome: every write of a worker names
// its lease, and a lease that is no longer current changes nothing.
//
// The package imports only the standard library. It knows no SQL, no HTTP
// server and no subprocess: everything else is an adapter to something, or a
// loop around it. Read on in task.go, store.go and then internal/dispatch,
// internal/httpapi, internal/worker, internal/claude.
//
// All times on the runtime's wire are Unix epoch milliseconds.
package bloom
