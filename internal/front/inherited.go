package front

import (
	"net"
	"sync"

	"github.com/coreos/go-systemd/v22/activation"
	"github.com/coreos/go-systemd/v22/daemon"
)

// The names of sockets that can be handed over (FileDescriptorName= of a unit).
const (
	SocketListen    = "listen"
	SocketRedirect  = "http-redirect"
	SocketMembridge = "membridge"
)

var inherited = sync.OnceValues(activation.ListenersWithNames)

// Inherited is the listener that whoever started this process has handed over
// under that name (LISTEN_FDS; see sd_listen_fds(3)), nil without one. As it stays
// open there, no connection is refused while the server restarts. A single socket
// without a name is SocketListen.
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
		return nil, nil //nolint:nilnil // it was not handed over
	}
	return found[0], nil
}

// Tell lets the init system know a state of this process: Ready or Stopping.
// Without one that wants to know it does nothing.
func Tell(state string) { _, _ = daemon.SdNotify(false, state) }

// States for Tell.
const (
	Ready    = daemon.SdNotifyReady
	Stopping = daemon.SdNotifyStopping
)
