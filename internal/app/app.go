// Package app is the composition root: it builds each role from its parts and
// owns the order in which they start and stop. Every role opens (and says what
// is wrong before anything runs), runs until its context ends, and closes.
// It holds no rules.
package app

import (
	"crypto/rand"
	"encoding/hex"
	"log/slog"
	"net"
	"net/netip"

	"github.com/bloom-runtime/bloom/internal/telemetry"
)

// Build is what the program is.
type Build struct {
	Version string
	Logger  *slog.Logger
	Tracing *telemetry.Tracing // nil exports no spans
}

// Misuse is a mistake in the settings that only opening a role can find.
type Misuse struct{ error }

// Unwrap is the mistake.
func (m Misuse) Unwrap() error { return m.error }

// isLoopback reports whether nobody but this machine can reach the address.
func isLoopback(addr net.Addr) bool {
	if addr.Network() == "unix" {
		return true
	}
	ap, err := netip.ParseAddrPort(addr.String())
	return err == nil && ap.Addr().Unmap().IsLoopback()
}

// localURL is how this machine reaches a listener.
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

// randomKey makes a key that lives in this process only.
func randomKey() string {
	var raw [32]byte
	_, _ = rand.Read(raw[:]) // never fails; see crypto/rand
	return hex.EncodeToString(raw[:])
}
