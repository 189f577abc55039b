//go:build race

package e2e_test

// buildFlags make the system under test look for races when its test does, but for SQLite,
// as the Makefile says.
var buildFlags = []string{"-race", "-gcflags=modernc.org/sqlite/lib=-race=false"}
