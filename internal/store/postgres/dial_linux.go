package postgres

import "syscall"

// userTimeout is TCP_USER_TIMEOUT, which package syscall does not name.
const userTimeout = 18

// limitSilence limits how long sent data may stay unacknowledged. Unix sockets do not
// have the option and do not need it.
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
