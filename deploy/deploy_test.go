package deploy_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// bloom builds the program once for all tests of this package, with the flags of make build, so
// that most of it is in the build cache.
func bloom(t *testing.T) string {
	t.Helper()
	path, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

var programs string // the folder of built, removed by TestMain

var built = sync.OnceValues(func() (string, error) {
	path := filepath.Join(programs, "bloom")
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", path, "../cmd/bloom")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", errors.Join(err, errors.New(string(out)))
	}
	return path, nil
})

func TestMain(m *testing.M) {
	var err error
	if programs, err = os.MkdirTemp("", "bloom-deploy-"); err != nil {
		panic(err)
	}
	_ = os.Chmod(programs, 0o755) // services run as other users
	code := m.Run()
	_ = os.RemoveAll(programs)
	os.Exit(code)
}

// needs skips a test whose programs scripts/test-deps.sh could not install here.
func needs(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("%s is not installed; scripts/test-deps.sh installs it where it may", name)
		}
	}
}

// isolated runs a script of testdata as root in its own mount, process and network namespaces, with
// a file system in memory for what it writes.
func isolated(t *testing.T, script string, args ...string) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root may make the namespaces that this test runs in")
	}
	work := t.TempDir()
	line := append([]string{"--mount", "--pid", "--net", "--fork", "--kill-child", "--mount-proc",
		"sh", "-c", `mount -t tmpfs tmpfs "$0" && exec sh "$@"`, work, filepath.Join("testdata", script)}, args...)
	cmd := exec.CommandContext(t.Context(), "unshare", append(line, work)...)
	out, err := cmd.CombinedOutput()
	if ended := new(exec.ExitError); errors.As(err, &ended) && ended.ExitCode() == 77 {
		t.Skipf("this machine cannot boot another system:\n%s", out)
	}
	if err != nil {
		t.Fatalf("%s: %v\n%s", script, err, out)
	}
	return string(out)
}

// TestServicesUnderOpenRC installs, starts, queries, kills, stops and uninstalls all
// roles with Debian's real OpenRC.
func TestServicesUnderOpenRC(t *testing.T) {
	t.Parallel()
	needs(t, "openrc-run", "unshare", "logrotate", "ip")
	out := isolated(t, "openrc.sh", bloom(t))
	for _, want := range []string{"started", "separated", "started again after a crash", "memory agent", "logs rotated", "reloaded", "stopped", "guarded", "uninstalled"} {
		if !strings.Contains(out, "ok: "+want+"\n") {
			t.Errorf("the script did not get to %q:\n%s", want, out)
		}
	}
}

// TestAMachineBecomesAWorker runs the installation script that a server serves, with the real curl,
// under Debian's real OpenRC.
func TestAMachineBecomesAWorker(t *testing.T) {
	t.Parallel()
	needs(t, "openrc-run", "unshare", "ip", "curl")
	out := isolated(t, "join.sh", bloom(t))
	for _, want := range []string{"joined", "updated"} {
		if !strings.Contains(out, "ok: "+want+"\n") {
			t.Errorf("the script did not get to %q:\n%s", want, out)
		}
	}
}

// TestScriptsOfThePackages runs them with stand-ins for the init systems.
func TestScriptsOfThePackages(t *testing.T) {
	t.Parallel()
	needs(t, "openrc-run", "unshare", "ip")
	out := isolated(t, "scripts.sh")
	for _, want := range []string{"systemd", "openrc"} {
		if !strings.Contains(out, "ok: "+want+"\n") {
			t.Errorf("the script did not get to %q:\n%s", want, out)
		}
	}
}

// TestEveryAlertSaysWhatToDo, and a test of promtool (make test-monitoring) makes it fire.
func TestEveryAlertSaysWhatToDo(t *testing.T) {
	t.Parallel()
	read := func(name string) string {
		raw, err := os.ReadFile(filepath.Join("monitoring", name))
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	tests := read("alerts_test.yaml")
	alerts := strings.Split(read("alerts.yaml"), "- alert: ")[1:]
	for _, alert := range alerts {
		name, rest, _ := strings.Cut(alert, "\n")
		if !strings.Contains(rest, "\n          action: ") {
			t.Errorf("%s does not say what to do", name)
		}
		if !strings.Contains(tests, "alertname: "+name+"\n        exp_alerts:\n          - exp_labels:") {
			t.Errorf("no test makes %s fire", name)
		}
	}
	if len(alerts) < 10 {
		t.Errorf("only %d alerts", len(alerts))
	}
}
