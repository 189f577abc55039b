// Package bloom is the vocabulary of BLOOM Runtime, a durable runtime for LLM
// agent tasks: the nouns (Task, Lease, Worker, Artifact, Result, Event, Audit),
// the rules by which a task and its lease change state (lifecycle.go), those by
// which a worker becomes known (registration.go, report.go), and the contract
// that a store keeps (store.go).
//
// A client posts a task. The runtime stores it and leases it to a worker node;
// the worker runs the claude command line, streams what happens, and completes
// the lease with a result and an artifact. The promise is at-least-once
// execution with exactly one recorded outcome: every write of a worker names
// its lease, and a lease that is no longer current changes nothing.
//
// The package imports only the standard library. It knows no SQL, no HTTP
// server and no subprocess: everything else is an adapter to something, or a
// loop around it. Read on in task.go, lifecycle.go, store.go and then
// internal/dispatch, internal/httpapi, internal/worker, internal/claude.
//
// All times on the runtime's wire are Unix epoch milliseconds.
package bloom
