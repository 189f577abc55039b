// Package porttest gives tests addresses at which a server starts later, or stops and starts
// again. A port that the kernel chose may be given to another test meanwhile.
package porttest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
)

// The ports are below those that the kernel assigns. Each process has blocks of its own: whoever
// listens on a block's first port has the others.
const (
	lowest    = 12_000
	blocks    = 100
	blockSize = 200
)

var ports struct {
	mu   sync.Mutex
	next int            // the next port of the block
	end  int            // the first port after the block
	held []net.Listener // until the process ends
}

// Address returns an address of this machine that nobody listens on, and that no other call
// returns.
func Address(t testing.TB) string {
	t.Helper()
	address, err := Find()
	if err != nil {
		t.Fatal(err)
	}
	return address
}

// Find is Address for callers without a test.
func Find() (string, error) {
	ports.mu.Lock()
	defer ports.mu.Unlock()
	for range blocks * blockSize {
		if ports.next == ports.end {
			if err := takeBlock(); err != nil {
				return "", err
			}
		}
		l, err := listen(ports.next)
		ports.next++
		if err == nil {
			return l.Addr().String(), l.Close()
		}
	}
	return "", errors.New("porttest: every port is taken")
}

func takeBlock() error {
	start := rand.IntN(blocks)
	for i := range blocks {
		first := lowest + (start+i)%blocks*blockSize
		if l, err := listen(first); err == nil {
			ports.held = append(ports.held, l)
			ports.next, ports.end = first+1, first+blockSize
			return nil
		}
	}
	return errors.New("porttest: every block of ports is taken")
}

func listen(port int) (net.Listener, error) {
	return net.Listen("tcp", fmt.Sprint("127.0.0.1:", port))
}
