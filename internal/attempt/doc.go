// Package attempt is what a worker and the program that runs a task tell each other: how the run ended,
// or why it is to end.
package attempt
