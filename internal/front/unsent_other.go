//go:build !linux

package front

import "net"

func boundUnsent(net.Conn) {}
