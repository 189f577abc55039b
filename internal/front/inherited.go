package front

import (
	"net"
	"sync"

	"github.com/coreos/go-systemd/v22/activation"
	"github.com/coreos/go-systemd/v22/daemon"
)

// The names of inherited sockets (FileDescriptorName= of a systemd unit).
const (
	SocketListen    = "listen"
	SocketRedirect  = "http-redirect"
	SocketMembridge = "membridge"
)

var inherited = sync.OnceValues(activation.ListenersWithNames)

// Inherited returns the listener that the parent process passed under this name (LISTEN_FDS; see
// sd_listen_fds(3)), or nil. Because the parent keeps it open, no connection is refused while the
// server restarts. A single socket without a name is SocketListen.
func Inherited(name string) (net.Listener, error) {
	all, err := inherited()
	if err != nil {
		return nil, err
	}
	found := all[name]
	if len(found) == 0 && name == SocketListen && len(all) == 1 {
		for unnamed, only := range all {
			if unnamed != SocketRedirect && unnamed != SocketMembridge {
				found = only
			}
		}
	}
	if len(found) == 0 {
		return nil, nil //nolint:nilnil // not inherited
	}
	return found[0], nil
}

// Notify reports the state of this process, Ready or Stopping, to the init system. It does nothing
// if that is not systemd.
func Notify(state string) { _, _ = daemon.SdNotify(false, state) }

// States for Notify.
const (
	Ready    = daemon.SdNotifyReady
	Stopping = daemon.SdNotifyStopping
)
