// Package claude runs one task with the claude command line and says what came
// of it. It hands over the prompt, reads the stream, meters the tokens, watches
// over time, silence and budget, keeps the session of every context, and turns
// the evidence of the end into one verdict.
//
// A run is made of turns of a session. Today a turn is one process; the session
// interface is the seam behind which a living process can serve many.
//
// It must not know where tasks come from or where results go: no HTTP, no
// store, no leases. docs/worker-and-claude.md tells the same in plain words.
package claude
