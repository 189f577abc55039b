package postgres

import (
	"context"
	"net"
	"time"
)

// silence is how long a machine may leave what it was sent unacknowledged, or a
// connection's probes unanswered, before it counts as gone. The system's own
// limits are hours and a quarter of one.
const silence = 15 * time.Second

// dial connects so that a machine that lost its power or its cable is noticed.
func dial(ctx context.Context, network, address string) (net.Conn, error) {
	d := net.Dialer{
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: silence / 3, Interval: silence / 3, Count: 2},
		Control:         limitSilence,
	}
	return d.DialContext(ctx, network, address)
}
