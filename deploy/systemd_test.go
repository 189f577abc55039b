package deploy_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// exposure is the maximum score of systemd-analyze security, as stated in
// docs/guides/install.md; 10 is a service without any hardening.
var exposure = map[string]float64{"bloom-runtime.service": 1.6, "bloom-membridge.service": 1.6, "bloom-worker.service": 2.6, "bloom-memory@.service": 2.6}

var score = regexp.MustCompile(`Overall exposure level for \S+: ([0-9.]+)`)

// TestUnitsOfSystemd checks the files that bloom service install writes with the real
// systemd-analyze.
func TestUnitsOfSystemd(t *testing.T) {
	t.Parallel()
	needs(t, "systemd-analyze")
	root := t.TempDir()
	install(t, root, "systemd", "runtime", "membridge", "worker")
	install(t, root, "systemd", "memory", "--user", "ann")
	units := filepath.Join(root, "etc/systemd/system")
	args := []string{"verify", "--man=no", filepath.Join(units, "bloom-runtime.socket")}
	for name := range exposure {
		path := filepath.Join(units, name)
		// The path of the program on this machine, not in the image.
		rewrite(t, path, "/usr/local/bin/bloom", bloom(t))
		args = append(args, path)
	}
	if out, err := exec.Command("systemd-analyze", args...).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
	for name, most := range exposure {
		out, err := exec.Command("systemd-analyze", "security", "--offline=true", filepath.Join(units, name)).CombinedOutput()
		found := score.FindSubmatch(out)
		if err != nil || found == nil {
			t.Errorf("%s: %v\n%s", name, err, out)
			continue
		}
		if got, err := strconv.ParseFloat(string(found[1]), 64); err != nil || got > most {
			t.Errorf("%s: exposure %s, want at most %.1f", name, found[1], most)
		}
	}
}

// install sets up roles in a folder.
func install(t *testing.T, root, init string, roles ...string) string {
	t.Helper()
	cmd := exec.Command(bloom(t), append([]string{"service", "install", "--init", init, "--root", root}, roles...)...)
	cmd.Env = []string{"HOME=" + t.TempDir()}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("bloom service install: %v\n%s", err, out)
	}
	return string(out)
}

func rewrite(t *testing.T, path, from, to string) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(raw), from) {
		t.Fatalf("%s does not name %s", path, from)
	}
	if err := os.WriteFile(path, []byte(strings.ReplaceAll(string(raw), from, to)), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestInstallingAgainKeepsWhatIsThere: keys and settings survive a second installation, which
// changes only the given settings.
func TestInstallingAgainKeepsWhatIsThere(t *testing.T) {
	t.Parallel()
	for _, init := range []string{"openrc", "systemd"} {
		t.Run(init, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			install(t, root, init, "runtime", "membridge", "worker")
			read := func(name string) string {
				raw, err := os.ReadFile(filepath.Join(root, name))
				if err != nil {
					t.Fatal(err)
				}
				return string(raw)
			}
			key := read("etc/bloom/runtime.key")
			if len(key) != 65 || read("etc/bloom-worker.key") != read("etc/bloom/worker.key") {
				t.Errorf("the keys are wrong: %q", key)
			}
			for name, mode := range map[string]os.FileMode{"etc/bloom": 0o750, "etc/bloom/runtime.key": 0o640, "etc/bloom-runtime.env": 0o600, "var/lib/bloom": 0o700} {
				if info, err := os.Stat(filepath.Join(root, name)); err != nil || info.Mode().Perm() != mode {
					t.Errorf("%s: %v, want mode %o", name, info.Mode(), mode)
				}
			}
			before := read("etc/bloom-runtime.env")
			out := install(t, root, init, "--set", "PORT=6000", "--set", "BLOOM_LISTEN=0.0.0.0:5000", "runtime")
			want := strings.ReplaceAll(strings.ReplaceAll(before, "PORT=5000", "PORT=6000"), "# BLOOM_LISTEN=", "BLOOM_LISTEN=")
			if got := read("etc/bloom-runtime.env"); got != want || read("etc/bloom/runtime.key") != key {
				t.Errorf("a second installation made of the settings:\n%s\n%s", got, out)
			}
			cmd := exec.Command(bloom(t), "service", "uninstall", "runtime", "--init", init, "--root", root)
			cmd.Env = []string{"HOME=" + t.TempDir()}
			if out, err := cmd.CombinedOutput(); err != nil || read("etc/bloom/runtime.key") != key {
				t.Errorf("uninstall: %v\n%s", err, out)
			}
			left, err := filepath.Glob(filepath.Join(root, "etc/*/*/bloom-runtime*"))
			if err != nil || len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

// TestAWorkerGetsTheKeyOfAServerThatIsInstalledLater in place of the empty file that it had before.
func TestAWorkerGetsTheKeyOfAServerThatIsInstalledLater(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	if out := install(t, root, "systemd", "worker"); !strings.Contains(out, "EMPTY") {
		t.Errorf("a worker without a key is installed silently:\n%s", out)
	}
	install(t, root, "systemd", "runtime")
	install(t, root, "systemd", "worker")
	want, err := os.ReadFile(filepath.Join(root, "etc/bloom/worker.key"))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(root, "etc/bloom-worker.key")); err != nil || string(got) != string(want) {
		t.Errorf("the worker's key is %q, the server's %q: %v", got, want, err)
	}
}

// TestAMemoryAgentIsInstalledForAPerson, and another person's survives its removal.
func TestAMemoryAgentIsInstalledForAPerson(t *testing.T) {
	t.Parallel()
	for init, want := range map[string]string{"openrc": "etc/init.d/bloom-memory.", "systemd": "etc/systemd/system/bloom-memory@"} {
		root := t.TempDir()
		install(t, root, init, "memory", "--user", "ann", "--set", "CLAUDE_PROJECT_ID=garden")
		install(t, root, init, "memory", "--user", "bo.b")
		for name, mode := range map[string]os.FileMode{"var/lib/bloom-memory.ann": 0o700, "var/lib/bloom-memory.bo.b": 0o700, "etc/bloom-memory.ann.env": 0o600} {
			if info, err := os.Stat(filepath.Join(root, name)); err != nil || info.Mode().Perm() != mode {
				t.Errorf("%s: %s: %v, %v, want mode %o", init, name, info, err, mode)
			}
		}
		raw, err := os.ReadFile(filepath.Join(root, "etc/bloom-memory.ann.env"))
		if err != nil || !strings.Contains(string(raw), "\nCLAUDE_PROJECT_ID=garden\n") {
			t.Errorf("%s: the settings are %s, %v", init, raw, err)
		}
		if found, err := filepath.Glob(filepath.Join(root, want+"*")); err != nil || len(found) == 0 {
			t.Errorf("%s: there is no %s*: %v", init, want, err)
		}
		for _, wrong := range [][]string{{"memory"}, {"worker", "--user", "ann"}, {"memory", "--user", "../ann"}, {"memory", "--user", "-ann"}} {
			cmd := exec.Command(bloom(t), append([]string{"service", "install", "--init", init, "--root", root}, wrong...)...)
			cmd.Env = []string{"HOME=" + t.TempDir()}
			if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "--user") {
				t.Errorf("%s: install %q: %v: %s", init, wrong, err, out)
			}
		}
	}
}

// TestADryRunChangesNothing and prints the service's definition.
func TestADryRunChangesNothing(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for init, want := range map[string]string{"openrc": "#!/sbin/openrc-run", "systemd": "ExecStart=/usr/local/bin/bloom server"} {
		out := install(t, root, init, "--dry-run", "runtime")
		if !strings.Contains(out, want) || !strings.Contains(out, "    PORT=5000\n") {
			t.Errorf("%s: a dry run printed\n%s", init, out)
		}
	}
	if found, err := os.ReadDir(root); err != nil || len(found) > 0 {
		t.Errorf("a dry run wrote %v", found)
	}
}
