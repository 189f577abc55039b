package front

import (
	"net"
	"syscall"
)

const (
	notSentLowAt = 25 // TCP_NOTSENT_LOWAT, which package syscall does not name
	maxUnsent    = 128 << 10
)

// boundUnsent bounds how much of a response the kernel keeps for a reader that does not read: by
// default 4 MB for each connection. It does not limit how much is on its way, and so no throughput.
func boundUnsent(conn net.Conn) {
	if one, is := conn.(interface{ NetConn() net.Conn }); is {
		conn = one.NetConn()
	}
	tcp, is := conn.(*net.TCPConn)
	if !is {
		return
	}
	if raw, err := tcp.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { _ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, notSentLowAt, maxUnsent) }) // a bound, not a promise
	}
}
