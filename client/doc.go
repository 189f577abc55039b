// Package client is the Go SDK of BLOOM Runtime: it speaks the runtime's HTTP
// contract with the types of package bloom.
//
// A Client is made once and shared: it is safe for concurrent use and keeps its
// connections alive.
//
//	c, err := client.New("http://127.0.0.1:5000", client.Options{APIKey: key})
//	task, err := c.Submit(ctx, bloom.TaskSpec{ContextID: "notes", AgentSlug: "writer", Prompt: "…"})
//	for event, err := range c.FollowEvents(ctx, task.ID, client.FollowOptions{}) { … }
//
// # Errors
//
// What the server said no to is an *APIError, which unwraps to the *bloom.Error
// of the runtime's vocabulary: errors.Is(err, bloom.ErrLeaseLost) holds for
// every lost lease. A server that could not be reached, or whose answer never
// came, is an *Unreachable: the call may or may not have had its effect. The
// two are never mixed up, because "you lost it" and "nobody knows" ask for
// different things of a worker. A caller's own cancelled context comes back as
// the context's error.
//
// # Repeating
//
// Calls that are safe to repeat are repeated by themselves after transport
// failures, 5xx and 429, with growing jittered waits (see Retry). Submit makes
// itself safe with an Idempotency-Key of its own. Calls that are not (Lease,
// Requeue) are repeated only when the server certainly never saw them.
//
// The package imports the root package and the standard library only.
package client
