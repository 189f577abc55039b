package process_test

import (
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
)

// runaway leaves a process that replaces itself by a child as fast as it can, each in a session of
// its own, and reads its input to the end. It says when that process is an orphan.
func runaway() int {
	pid, err := syscall.ForkExec("/proc/self/exe", []string{"x", "__child", "chain"}, &syscall.ProcAttr{Files: []uintptr{0, 1, 2}})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if _, err := syscall.Wait4(pid, nil, 0, nil); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println("running")
	_, _ = io.Copy(io.Discard, os.Stdin)
	return 0
}

// chain forks and ends, and so does its child. It makes system calls only, because the runtime does
// not survive a fork.
func chain() {
	for {
		pid, _, _ := syscall.RawSyscall6(syscall.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
		if pid != 0 {
			_, _, _ = syscall.RawSyscall(syscall.SYS_EXIT_GROUP, 0, 0, 0)
		}
		_, _, _ = syscall.RawSyscall(syscall.SYS_SETSID, 0, 0, 0)
	}
}

func TestNoOrphanIsMissedOrLeft(t *testing.T) {
	t.Parallel()
	stdin, more, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	c := command(t, "runaway")
	c.Stdin = stdin
	p, out := startPiped(t, c)
	stdin.Close()
	if line, err := out.ReadString('\n'); err != nil || strings.TrimSpace(line) != "running" {
		t.Fatalf("%q, %v", line, err)
	}
	for i := range 500 {
		if !p.Orphans() {
			t.Fatalf("the orphan was missed at look %d", i)
		}
	}
	more.Close()
	if exit := wait(t, p); exit.Code != 0 {
		t.Errorf("exit = %+v", exit)
	}
	if p.Orphans() {
		t.Error("a command that has ended has orphans")
	}
}

func TestACommandWithoutOrphansHasNone(t *testing.T) {
	t.Parallel()
	p, out := startPiped(t, command(t, "sleep"))
	readPIDs(t, out, 1)
	if p.Orphans() {
		t.Error("there is none")
	}
}
