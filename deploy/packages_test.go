package deploy_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// packages builds the amd64 release of a version into a folder.
func packages(t *testing.T, version, formats string) string {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.Command("../scripts/packages.sh", dir)
	cmd.Env = append(os.Environ(), "VERSION="+version, "ARCHS=amd64", "FORMATS="+formats)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("packages.sh: %v\n%s", err, out)
	}
	return dir
}

// TestPackages builds the packages, twice for the same bytes, and installs, upgrades
// and removes the deb with the real dpkg. It takes a minute or more: make test-packages.
func TestPackages(t *testing.T) {
	if os.Getenv("BLOOM_TEST_PACKAGES") == "" {
		t.Skip("builds releases; make test-packages runs it")
	}
	needs(t, "openrc-run", "unshare", "dpkg", "ip", "curl")
	old, same, next := packages(t, "v1.0.0", "apk deb rpm"), packages(t, "v1.0.0", "apk deb rpm"), packages(t, "v1.0.1", "deb")
	sums := func(dir string) string {
		raw, err := os.ReadFile(filepath.Join(dir, "SHA256SUMS"))
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	if a, b := sums(old), sums(same); a != b || strings.Count(a, "\n") != 5 {
		t.Errorf("two builds of one commit differ:\n%s\n%s", a, b)
	}
	bill, err := os.ReadFile(filepath.Join(old, "bloom-linux-amd64.cdx.json"))
	if err != nil || !strings.Contains(string(bill), "pkg:golang/modernc.org/sqlite@") {
		t.Errorf("the bill of materials lacks SQLite: %v", err)
	}
	deb := func(dir string) string {
		found, err := filepath.Glob(filepath.Join(dir, "*.deb"))
		if err != nil || len(found) != 1 {
			t.Fatal(found, err)
		}
		return found[0]
	}
	out := isolated(t, "deb.sh", deb(old), deb(next))
	for _, want := range []string{"installed", "upgraded", "removed"} {
		if !strings.Contains(out, "ok: "+want+"\n") {
			t.Errorf("the script did not get to %q:\n%s", want, out)
		}
	}
}
