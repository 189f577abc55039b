package porttest_test

import (
	"net"
	"testing"

	"github.com/bloom-runtime/bloom/internal/porttest"
)

func TestEachAddressIsGivenOnce(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for range 250 { // more than a block has
		address := porttest.Address(t)
		if seen[address] {
			t.Fatalf("%s is given twice", address)
		}
		seen[address] = true
	}
	for address := range seen {
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
		break
	}
}
