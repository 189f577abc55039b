// Package claude runs tasks with the claude command line. It passes the prompt, reads
// the output stream, counts tokens, enforces the time limit, the silence limit and the
// token budget, stores the session of each context, and decides the outcome.
//
// A run consists of one or more turns of a session. A turn has a process of its own
// (coldSession), or a process that serves many turns (warmSession).
//
// The package does not know where tasks come from or where results go: it has no HTTP,
// no store and no leases. docs/development/running-claude.md describes its behaviour.
package claude
