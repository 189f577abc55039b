//go:build race

package e2e_test

// buildFlags enable the race detector in the system under test when the test has it, except for
// SQLite, like the Makefile.
var buildFlags = []string{"-race", "-gcflags=modernc.org/sqlite/lib=-race=false"}
