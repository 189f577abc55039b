// Package client is the Go SDK of BLOOM Runtime: it speaks the runtime's HTTP contract with the
// types of package bloom.
//
// Create one Client and share it: it is safe for concurrent use and reuses connections.
//
//	c, err := client.New("http://127.0.0.1:5000", client.Options{APIKey: key})
//	task, err := c.Submit(ctx, bloom.TaskSpec{ContextID: "notes", AgentSlug: "writer", Prompt: "…"})
//	for event, err := range c.FollowEvents(ctx, task.ID, client.FollowOptions{}) { … }
//
// # Errors
//
// A request that the server refuses returns an *APIError, which unwraps to a *bloom.Error:
// errors.Is(err, bloom.ErrLeaseLost) holds for every lost lease. A server that cannot be reached,
// or whose response does not arrive, returns an *UnreachableError: the call may or may not have had
// its effect. The two are always distinct, because a worker must act differently on "the lease is
// lost" and "the outcome is unknown". A cancelled context returns the context's error.
//
// # Retries
//
// Idempotent calls are retried after transport failures, 5xx and 429, with exponential backoff and
// jitter (see Retry). Submit makes itself idempotent with an Idempotency-Key. Other calls (Lease,
// Requeue) are retried only when the server certainly did not see them.
//
// The package imports only the root package and the standard library.
package client
