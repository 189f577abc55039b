package e2e_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"github.com/bloom-runtime/bloom/internal/standin"
)

// TestAPersonReadsTheStream runs a task from a terminal: what the agent says and does is shown as
// it happens, in colour, and the output is shown once. Control sequences in the model's text have
// no effect.
func TestAPersonReadsTheStream(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.serve()
	h.work(workerOptions{name: "seen", args: []string{"--allowed-tool", "Bash"}})
	h.script("read", func(r standin.Request) standin.Reply {
		if r.HasToolResult() {
			return standin.Reply{Text: "That was it.\x1b]0;owned\x07"}
		}
		return standin.Tool("I will look.", "Bash", map[string]any{"command": "echo found it", "description": "look"})
	})
	master, slave := pty(t)
	cmd := exec.CommandContext(t.Context(), programs.bloom, "task", "run", "scenario read;")
	cmd.Env = h.env("BLOOM_RUNTIME_URL="+h.url, "BLOOM_API_KEY="+adminKey, "TERM=xterm-256color")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	slave.Close()
	// Reading a terminal that nobody has open fails with EIO.
	raw, err := io.ReadAll(master)
	if err != nil && !errors.Is(err, syscall.EIO) {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v", err)
	}
	seen := string(raw)
	at := 0
	for _, want := range []string{"I will look.", "Bash", "echo found it", "found it", "That was it.", "completed"} {
		i := strings.Index(seen[at:], want)
		if i < 0 {
			t.Fatalf("%q does not follow in:\n%q", want, seen)
		}
		at += i + len(want)
	}
	if n := strings.Count(seen, "That was it."); n != 1 {
		t.Errorf("the output is there %d times:\n%q", n, seen)
	}
	if !strings.Contains(seen, "\x1b[") {
		t.Errorf("no colour on a terminal:\n%q", seen)
	}
	if strings.Contains(seen, "\x1b]") || strings.Contains(seen, "\x07") {
		t.Errorf("what the model said steers the terminal:\n%q", seen)
	}
}

// pty opens a terminal (pty(7)).
func pty(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { master.Close() })
	var unlock, number int32
	for request, arg := range map[uintptr]*int32{syscall.TIOCSPTLCK: &unlock, syscall.TIOCGPTN: &number} {
		if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, master.Fd(), request, uintptr(unsafe.Pointer(arg))); errno != 0 {
			t.Fatal(errno)
		}
	}
	slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return master, slave
}
