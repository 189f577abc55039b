package process_test

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// nobody is an unprivileged user, for tests that run as root, which may read everything.
const nobody = 65534

// asOrdinaryUser makes cmd run as a user other than root.
func asOrdinaryUser(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if os.Geteuid() != 0 {
		return
	}
	// The test binary is in a folder that only root may enter.
	dir, err := os.MkdirTemp("", "bloom-process") //nolint:usetesting // t.TempDir belongs to root
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	content, err := os.ReadFile(cmd.Path)
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "program")
	syscall.ForkLock.RLock() // a program that another test's child still has open for writing cannot be started
	err = os.WriteFile(program, content, 0o755)
	syscall.ForkLock.RUnlock()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd.Path, cmd.Dir = program, dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
}

// startRole runs this binary in a role, in a separate process, until the test ends.
func startRole(t *testing.T, cmd *exec.Cmd) *bufio.Reader {
	t.Helper()
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = stdin.Close(); _ = cmd.Wait() })
	return bufio.NewReader(stdout)
}

func selfIn(t *testing.T, role ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return exec.Command(self, append([]string{"__child"}, role...)...)
}

func TestACommandThatKillsItsSupervisorLeavesNothing(t *testing.T) {
	t.Parallel()
	out := startRole(t, selfIn(t, "caller", "patricide"))
	pids := readPIDs(t, out, 3)
	left := readPIDs(t, out, 1)[0] // the caller's Wait has returned
	if left < 2 {
		t.Errorf("left behind = %d, want the two that outlived the supervisor at least", left)
	}
	wantGone(t, pids)
}

//nolint:paralleltest // where a supervisor dies, every child that is no supervisor ends: also those of other tests
func TestACommandThatStopsItsSupervisorDelaysNobody(t *testing.T) {
	c := command(t, "freezer")
	c.Grace = time.Millisecond
	p, out := startPiped(t, c)
	pids := readPIDs(t, out, 2)
	for range 2 { // the second does not wait for the answer to the first
		if !p.Orphans() {
			t.Error("without an answer there may be orphans")
		}
	}
	p.Kill()
	if exit, _ := p.Wait(); !exit.Stopped {
		t.Errorf("exit = %+v", exit)
	}
	wantGone(t, pids)
}

func TestACommandCannotReadItsAncestorsSecrets(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		conceal  string
		ordinary bool
		leaks    bool
	}{
		"as an ordinary user":                 {"1", true, false},
		"as root, the original environment":   {"1", false, false},
		"and it would see what is not hidden": {"", false, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := selfIn(t, "keeper")
			if test.ordinary {
				asOrdinaryUser(t, cmd)
			}
			cmd.Env = []string{"SECRET=canary", "CONCEAL=" + test.conceal}
			out := startRole(t, cmd)
			var seen strings.Builder
			for line := ""; line != "0\n"; { // the number of processes left behind comes last
				var err error
				if line, err = out.ReadString('\n'); err != nil {
					t.Fatalf("%v after %q", err, seen.String())
				}
				seen.WriteString(line)
			}
			if got := strings.Contains(seen.String(), "canary"); got != test.leaks {
				t.Errorf("the command read the secret: %v\n%s", got, seen.String())
			}
			if test.ordinary && strings.Contains(seen.String(), "opened") {
				t.Errorf("the command opened what is not its own:\n%s", seen.String())
			}
		})
	}
}
