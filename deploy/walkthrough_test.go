package deploy_test

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
)

// printed matches a block of commands of the page, its role, and its system.
var printed = regexp.MustCompile("(?ms)^<!-- run: ([a-z]+)(?: on ([a-z]+))? -->\n```sh\n(.*?)^```$")

// commands writes the commands of two pages into files: those of a part, or with -SYSTEM those for one
// system and for all, in their order.
func commands(t *testing.T) string {
	t.Helper()
	page := ""
	for _, name := range []string{"several-machines", "backup-and-upgrade"} {
		raw, err := os.ReadFile("../docs/guides/" + name + ".md")
		if err != nil {
			t.Fatal(err)
		}
		page += string(raw)
	}
	parts := map[string]string{}
	for _, block := range printed.FindAllStringSubmatch(page, -1) {
		part, system, lines := block[1], block[2], block[3]
		parts[part] += lines
		for _, one := range []string{"debian", "alpine"} {
			if system == "" || system == one {
				parts[part+"-"+one] += lines
			}
		}
	}
	dir := t.TempDir()
	for _, want := range []string{"server-debian", "server-alpine", "worker-debian", "worker-alpine", "task", "watch", "socket"} {
		if parts[want] == "" {
			t.Fatalf("no page has commands for %s", want)
		}
		write(t, filepath.Join(dir, want), parts[want], 0o644)
	}
	return dir
}

func write(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

// dist returns the folder of scripts/packages.sh, with only this machine's program.
func dist(t *testing.T) string {
	t.Helper()
	dir, sums := t.TempDir(), ""
	for name, from := range map[string]string{"bloom-linux-" + runtime.GOARCH: bloom(t), "bloom-alerts.yaml": "monitoring/alerts.yaml"} {
		raw, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, name), string(raw), 0o755)
		sums += fmt.Sprintf("%x  %s\n", sha256.Sum256(raw), name)
	}
	write(t, filepath.Join(dir, "SHA256SUMS"), sums, 0o644)
	return dir
}

// debian returns a bare Debian, or skips the test if it could not be created.
func debian(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs("../.tools/debian-root/root")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Skip("there is no bare Debian; scripts/debian-root.sh makes it where root and debootstrap are")
	}
	return path
}

// TestFromBareMachinesToAMonitoredService follows docs/guides/several-machines.md as printed: from a
// bare Debian under systemd, and from a BusyBox root under OpenRC, to a server over TLS with two
// workers, the first of them monitored by the real Prometheus.
func TestFromBareMachinesToAMonitoredService(t *testing.T) {
	t.Parallel()
	needs(t, "unshare", "nsenter", "systemd-nspawn", "busybox", "openrc-run", "curl", "openssl", "ip")
	root, page, files := debian(t), commands(t), dist(t)
	for systems, want := range map[string][]string{
		"debian debian alpine": {"served over TLS", "joined", "each worker ran a task", "monitored", "settings are literal", "restarted without a refusal", "uninstalled"},
		"alpine alpine alpine": {"served over TLS", "joined", "each worker ran a task", "uninstalled"},
	} {
		t.Run(systems, func(t *testing.T) {
			t.Parallel()
			out := isolated(t, "walk.sh", systems, root, files, page)
			for _, step := range want {
				if !strings.Contains(out, "ok: "+step+"\n") {
					t.Errorf("the script did not get to %q:\n%s", step, out)
				}
			}
		})
	}
}
