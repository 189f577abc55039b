package process_test

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/bloom-runtime/bloom/internal/process"
)

// command returns the test binary in one of child's roles.
func command(t *testing.T, role string) process.Command {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return process.Command{Path: self, Args: []string{"__child", role}}
}

func start(t *testing.T, c process.Command) *process.Process {
	t.Helper()
	p, err := process.Start(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Kill(); <-p.Done() })
	return p
}

// startPiped starts the command and returns a reader of its output.
func startPiped(t *testing.T, c process.Command) (*process.Process, *bufio.Reader) {
	t.Helper()
	r, w := io.Pipe()
	c.Stdout = w
	p := start(t, c)
	go func() { <-p.Done(); w.Close() }()
	return p, bufio.NewReader(r)
}

func wait(t *testing.T, p *process.Process) process.Exit {
	t.Helper()
	exit, err := p.Wait()
	if err != nil {
		t.Fatalf("Wait: %v", err)
	}
	return exit
}

func readPIDs(t *testing.T, r *bufio.Reader, n int) []int {
	t.Helper()
	var pids []int
	for range n {
		line, err := r.ReadString('\n')
		if err != nil {
			t.Fatalf("read pid %d of %d: %v", len(pids)+1, n, err)
		}
		pid, err := strconv.Atoi(strings.TrimSpace(line))
		if err != nil {
			t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	return pids
}

// alive reports whether a process exists and is not a zombie.
func alive(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return syscall.Kill(pid, 0) == nil && !process.FullTree
	}
	rest := stat[bytes.LastIndexByte(stat, ')')+1:]
	return !bytes.HasPrefix(bytes.TrimSpace(rest), []byte("Z"))
}

func wantGone(t *testing.T, pids []int) {
	t.Helper()
	for _, pid := range pids {
		if alive(pid) {
			t.Errorf("process %d is still alive", pid)
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}
