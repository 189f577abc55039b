package membridge_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/bloom-runtime/bloom/internal/membridge/mbclient"
)

// The runtime reads agents with long lists, which one response could not hold.
func TestManyAgentsAreReadInPages(t *testing.T) {
	t.Parallel()
	p := start(t)
	labels := strings.Repeat(`"`+strings.Repeat("x", 80)+`",`, 63) + `"last"`
	const agents = 250
	var all sync.WaitGroup
	for i := range agents {
		all.Go(func() {
			body := fmt.Sprintf(`{"name":"agent %03d","capabilities":{"labels":[%s]}}`, i, labels)
			if a := p.do(t, "POST", "/agents", body); a.status != 201 {
				t.Errorf("%d %s", a.status, a.body)
			}
		})
	}
	all.Wait()
	client, err := mbclient.New(mbclient.Options{URL: p.url, Key: adminKey, MaxResponse: 1200 << 10, Retries: mbclient.NoRetries})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	list, err := client.Agents(t.Context())
	if err != nil || len(list) != agents {
		t.Fatalf("%d agents, %v", len(list), err)
	}
	for i, a := range list {
		if want := fmt.Sprintf("agent %03d", i); a.Name != want || len(a.Capabilities.Labels) != 64 {
			t.Fatalf("agent %d is %s with %d labels", i, a.Name, len(a.Capabilities.Labels))
		}
	}
	for path, want := range map[string]string{
		"/agents":                             "",
		"/agents?limit=200":                   `</agents?after=agent+199&limit=200>; rel="next"`,
		"/agents?limit=200&after=agent%20199": "",
	} {
		if got := p.want(t, 200, "GET", path, ""); got.header.Get("Link") != want {
			t.Errorf("%s: Link is %q", path, got.header.Get("Link"))
		}
	}
}
