//go:build race

package e2e_test

// buildFlags make the system under test look for races when its test does.
var buildFlags = []string{"-race"}
