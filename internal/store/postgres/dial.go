package postgres

import (
	"context"
	"net"
	"time"
)

// silence is how long sent data may stay unacknowledged, or keepalive probes
// unanswered, before the connection counts as broken. The system's defaults are 15
// minutes and two hours.
const silence = 15 * time.Second

// dial connects so that the loss of the remote machine or of the network is noticed.
func dial(ctx context.Context, network, address string) (net.Conn, error) {
	d := net.Dialer{
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: silence / 3, Interval: silence / 3, Count: 2},
		Control:         limitSilence,
	}
	return d.DialContext(ctx, network, address)
}
