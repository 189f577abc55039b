package mbclient_test

import (
	"errors"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/membridge/mbclient"
)

func TestAChangedAddressAndKeyAreUsedAtOnce(t *testing.T) {
	t.Parallel()
	seen := make(chan string, 4)
	handler := func(name string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			seen <- name + " " + r.Header.Get("X-MEMBRIDGE-ADMIN")
			io.WriteString(w, "[]")
		}
	}
	client := dial(t, serve(t, handler("first")))
	client.Agents(t.Context())
	second := serve(t, handler("second"))
	if err := client.Configure(second+"/", "another-key"); err != nil {
		t.Fatal(err)
	}
	if s := client.State(); s.LastSuccess != nil || client.URL() != second {
		t.Errorf("state of the old address: %+v at %s", s, client.URL())
	}
	client.Agents(t.Context())
	if a, b := <-seen, <-seen; a != "first the-admin-key-of-a-test" || b != "second another-key" {
		t.Errorf("seen %q, %q", a, b)
	}
	for _, bad := range []string{"ftp://x", "http://u:p@x", "x", "http://x/?k=v", "http://"} {
		if client.Configure(bad, "") == nil || client.URL() != second {
			t.Errorf("%s was taken", bad)
		}
	}
	if client.Configure(second, "a\nb") == nil {
		t.Error("a key of two lines was taken")
	}
	client.Configure("", "")
	if _, err := client.Agents(t.Context()); code(err) != bloom.CodeMembridgeDown {
		t.Errorf("without an address: %v", err)
	}
}

func TestTheAddressPolicyHoldsAtDialTime(t *testing.T) {
	t.Parallel()
	var reached atomic.Bool
	url := serve(t, func(http.ResponseWriter, *http.Request) { reached.Store(true) })
	client := dial(t, strings.Replace(url, "127.0.0.1", "localhost", 1), func(o *mbclient.Options) {
		o.AddressPolicy = func(a netip.Addr) error {
			if a.IsLoopback() {
				return errors.New("no loopback")
			}
			return nil
		}
	})
	if _, err := client.Agents(t.Context()); err == nil || reached.Load() || !strings.Contains(err.Error(), "policy") {
		t.Errorf("reached %v, %v", reached.Load(), err)
	}
}
