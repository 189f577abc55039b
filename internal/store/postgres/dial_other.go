//go:build !linux

package postgres

import "syscall"

// limitSilence does nothing: keepalive notices idle connections, and the store's
// patience limits the others.
func limitSilence(string, string, syscall.RawConn) error { return nil }
