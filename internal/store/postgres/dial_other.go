//go:build !linux

package postgres

import "syscall"

// limitSilence does nothing: keepalive alone notices idle connections, and the
// store's own patience bounds the others.
func limitSilence(string, string, syscall.RawConn) error { return nil }
