// Package e2e holds scenarios of the whole system: a real bloom server, real
// workers and the real claude command line, each in a process of its own, on
// loopback and in temporary folders. Only the model is a stand-in.
//
// What happens inside a part is its own package's business; here it is asked
// what a client sees over HTTP, and what is left on the machine afterwards.
package e2e
