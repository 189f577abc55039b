package deploy_test

import (
	"net/netip"
	"os"
	"regexp"
	"testing"
)

// A trusted proxy can claim any client address: behind Docker's gateway every client would be
// trusted.
func TestComposeTrustsItsProxyAlone(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("compose/compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	find := func(pattern string) string {
		t.Helper()
		m := regexp.MustCompile(pattern).FindSubmatch(raw)
		if m == nil {
			t.Fatalf("compose.yaml has no %s", pattern)
		}
		return string(m[1])
	}
	proxy, err := netip.ParseAddr(find(`BLOOM_TRUSTED_PROXIES: (\S+)`))
	if err != nil {
		t.Fatalf("it trusts more than one address: %v", err)
	}
	if nginx := find(`(?s)\n  nginx:.*?ipv4_address: ([0-9.]+)`); nginx != proxy.String() {
		t.Errorf("it trusts %s, and nginx is %s", proxy, nginx)
	}
	subnet, given := netip.MustParsePrefix(find(`subnet: ([0-9./]+)`)), netip.MustParsePrefix(find(`ip_range: ([0-9./]+)`))
	if !subnet.Contains(proxy) || given.Contains(proxy) {
		t.Errorf("%s may be given to another container", proxy)
	}
	if worker := find(`(?s)\n  worker:.*?networks: (\S+)`); worker != "[workers]" {
		t.Errorf("a worker's tasks are in the networks %s", worker)
	}
}
