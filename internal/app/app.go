// Package app is the composition root: it builds each role from its parts and determines the order
// in which they start and stop. Every role opens (and reports errors before anything runs), runs
// until its context ends, and closes. It contains no rules.
package app

import (
	"crypto/rand"
	"encoding/hex"
	"log/slog"
	"net"
	"net/netip"

	"github.com/bloom-runtime/bloom/internal/telemetry"
)

// Build describes the program.
type Build struct {
	Version string
	Logger  *slog.Logger
	Tracing *telemetry.Tracing // nil exports no spans
	// RequestLevel is the level at which a server logs the requests that it answers.
	RequestLevel slog.Level
}

// ConfigError is an error in the settings that is found only when a role opens.
type ConfigError struct{ error }

// Unwrap returns the error.
func (m ConfigError) Unwrap() error { return m.error }

// isLoopback reports whether only this machine can reach the address.
func isLoopback(addr net.Addr) bool {
	if addr.Network() == "unix" {
		return true
	}
	ap, err := netip.ParseAddrPort(addr.String())
	return err == nil && ap.Addr().Unmap().IsLoopback()
}

// localURL returns the URL of a listener for clients on this machine.
func localURL(scheme string, addr net.Addr) string {
	ap, err := netip.ParseAddrPort(addr.String())
	if err != nil {
		return scheme + "://" + addr.String()
	}
	ip := ap.Addr().Unmap()
	if ip.IsUnspecified() {
		ip = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	return scheme + "://" + netip.AddrPortFrom(ip, ap.Port()).String()
}

// randomKey returns a key for use within this process.
func randomKey() string {
	var raw [32]byte
	_, _ = rand.Read(raw[:]) // never fails; see crypto/rand
	return hex.EncodeToString(raw[:])
}
