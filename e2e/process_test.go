package e2e_test

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// proc is a process of the system under test.
type proc struct {
	t    *testing.T
	name string
	cmd  *exec.Cmd
	out  *output
	done chan struct{} // closed when it has ended
	cut  bool          // the test killed it, so its exit code proves nothing
}

// spawn starts bloom. Its output is stored and printed when the test fails.
func spawn(t *testing.T, name string, env []string, args ...string) *proc {
	t.Helper()
	return spawnAs(t, "", name, env, args...)
}

// spawnAs is spawn for the binary of another version; "" is the one under test.
func spawnAs(t *testing.T, program, name string, env []string, args ...string) *proc {
	t.Helper()
	p := command(t, name, env, cmp.Or(program, programs.bloom), args...)
	// bloom hides its environment from /proc, so the mark is also its argv[0].
	for _, pair := range env { // the last one counts
		if strings.HasPrefix(pair, markName+"=") {
			p.cmd.Args[0] = pair
		}
	}
	return p.start()
}

// spawnProgram is spawn for another program.
func spawnProgram(t *testing.T, name string, env []string, program string, args ...string) *proc {
	t.Helper()
	return command(t, name, env, program, args...).start()
}

func command(t *testing.T, name string, env []string, program string, args ...string) *proc {
	p := &proc{t: t, name: name, cmd: exec.Command(program, args...), out: newOutput(), done: make(chan struct{})}
	p.cmd.Env, p.cmd.Stdout, p.cmd.Stderr = env, p.out, p.out
	// A surviving descendant would hold the pipe: the leak check finds it.
	p.cmd.WaitDelay = 2 * time.Second
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return p
}

func (p *proc) start() *proc {
	p.t.Helper()
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	go func() {
		defer close(p.done)
		_ = p.cmd.Wait() // the code is read from the state
		p.out.close()
	}()
	return p
}

func (p *proc) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

func (p *proc) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.t.Errorf("signal %s to %s: %v", s, p.name, err)
	}
}

// kill kills the process and waits until it has ended.
func (p *proc) kill() {
	p.t.Helper()
	p.cut = true
	p.signal(syscall.SIGKILL)
	p.wait()
}

// terminate sends TERM and returns the exit code.
func (p *proc) terminate() int {
	p.t.Helper()
	p.signal(syscall.SIGTERM)
	return p.wait()
}

// wait waits for the end of the process and returns its exit code, -1 when a signal ended it.
func (p *proc) wait() int {
	p.t.Helper()
	select {
	case <-p.done:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(patience):
		p.cut = true
		p.signal(syscall.SIGQUIT) // its goroutines show where it hangs
		select {
		case <-p.done:
		case <-time.After(5 * time.Second):
			p.signal(syscall.SIGKILL)
			<-p.done
		}
		p.t.Errorf("%s did not end within %s", p.name, patience)
		return -1
	}
}

// says waits until a line contains one of the texts and returns the line.
func (p *proc) says(texts ...string) string {
	p.t.Helper()
	line, ok := p.out.find(texts, patience)
	if !ok {
		p.t.Fatalf("%s never said %q:\n%s", p.name, texts, p.out.tail())
	}
	return line
}

// markName is an environment variable that a test gives to everything it starts. Workers pass it
// on, so it also marks claude and whatever claude starts.
const markName = "E2E_MARK"

func markPrefix() string { return fmt.Sprintf("%d-", os.Getpid()) }

// marked lists the running processes whose mark, in their environment or as their name, begins with
// the prefix. Zombies have neither.
func marked(prefix string) (pids []int) {
	environs, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil || len(environs) == 0 {
		panic("these tests look for processes in /proc")
	}
	for _, path := range environs {
		raw, err := os.ReadFile(path)
		if err != nil || len(raw) == 0 {
			continue // it has ended in the meantime, or is not ours
		}
		name, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "cmdline"))
		raw = append(append(raw, 0), name...)
		if !bytes.Contains(append([]byte{0}, raw...), []byte("\x00"+markName+"="+prefix)) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// sweep kills the processes whose mark begins with the prefix and describes them. There should be
// none.
func sweep(prefix string) (found []string) {
	for _, pid := range marked(prefix) {
		line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err != nil {
			continue
		}
		found = append(found, fmt.Sprintf("%d: %s", pid, strings.ReplaceAll(string(line), "\x00", " ")))
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	return found
}

// eventually polls the state of another process, where there is no signal to wait for.
func eventually(t *testing.T, what string, true func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !true(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it never came true that %s", what)
		}
	}
}
