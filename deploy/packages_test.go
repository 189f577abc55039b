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

// TestPackages builds the packages, twice for the same bytes. It installs, upgrades and
// removes the deb with the real dpkg on a bare Debian under systemd, and what the apk holds
// on a BusyBox root under OpenRC. It takes minutes: make test-packages.
func TestPackages(t *testing.T) {
	if os.Getenv("BLOOM_TEST_PACKAGES") == "" {
		t.Skip("builds releases; make test-packages runs it")
	}
	needs(t, "openrc-run", "unshare", "nsenter", "systemd-nspawn", "busybox", "ip", "curl")
	root := debian(t)
	old, same, next := packages(t, "v1.0.0", "apk deb rpm"), packages(t, "v1.0.0", "apk deb rpm"), packages(t, "v1.0.1", "apk deb")
	sums := func(dir string) string {
		raw, err := os.ReadFile(filepath.Join(dir, "SHA256SUMS"))
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	if a, b := sums(old), sums(same); a != b || strings.Count(a, "\n") != 6 {
		t.Errorf("two builds of one commit differ:\n%s\n%s", a, b)
	}
	bill, err := os.ReadFile(filepath.Join(old, "bloom-linux-amd64.cdx.json"))
	for _, part := range []string{"pkg:golang/modernc.org/sqlite@", "pkg:npm/react@", "pkg:npm/%40tanstack/react-query@"} {
		if err != nil || !strings.Contains(string(bill), part) {
			t.Errorf("the bill of materials lacks %s: %v", part, err)
		}
	}
	file := func(dir, format string) string {
		found, err := filepath.Glob(filepath.Join(dir, "*."+format))
		if err != nil || len(found) != 1 {
			t.Fatal(found, err)
		}
		return found[0]
	}
	for script, args := range map[string][]string{
		"deb.sh": {file(old, "deb"), file(next, "deb"), root},
		"apk.sh": {file(old, "apk"), file(next, "apk")},
	} {
		out := isolated(t, script, args...)
		for _, want := range []string{"installed", "upgraded", "removed"} {
			if !strings.Contains(out, "ok: "+want+"\n") {
				t.Errorf("%s did not get to %q:\n%s", script, want, out)
			}
		}
	}
}
