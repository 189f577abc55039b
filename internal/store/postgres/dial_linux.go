package postgres

import "syscall"

// userTimeout is TCP_USER_TIMEOUT, which package syscall does not name.
const userTimeout = 18

// limitSilence bounds how long sent data may stay unacknowledged. A unix socket
// does not know the option, and does not need it.
func limitSilence(network, _ string, c syscall.RawConn) error {
	if network == "unix" {
		return nil
	}
	var failed error
	err := c.Control(func(fd uintptr) {
		failed = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, userTimeout, int(silence.Milliseconds()))
	})
	if err != nil {
		return err
	}
	return failed
}
