package claude_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/claude"
	"github.com/bloom-runtime/bloom/internal/standin"
)

// doomedWorker is this binary as a worker in a process of its own. It prints a
// line for every event and runs until it is killed.
func doomedWorker() {
	warm, _ := strconv.Atoi(os.Getenv("T_WARM")) // 0 without
	runner, err := claude.New(claude.Config{
		Path: os.Getenv("T_CLAUDE"), Workdir: os.Getenv("T_WORKDIR"), StateDir: os.Getenv("T_STATE"),
		AllowedTools: []string{"Bash"}, Warm: warm,
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if warm > 0 {
		if r := runner.Run(context.Background(), in("idle", "say something"), nil); r.Completion.Status != bloom.OutcomeSuccess {
			fmt.Fprintln(os.Stderr, show(r))
			os.Exit(1)
		}
	}
	runner.Run(context.Background(), task("hang"), func(typ string, data any) { fmt.Println(typ, data) })
	os.Exit(0)
}

func TestKillNineOfTheWorkerLeavesNoClaudeNorChildOfIt(t *testing.T) {
	t.Parallel()
	h := newHarness(t, func(r standin.Request) standin.Reply {
		if strings.Contains(r.LastUser(), "say something") {
			return standin.Reply{Text: "something"}
		}
		// The tool leaves its session and its group, and writes its pid.
		return standin.Tool("", "Bash", map[string]any{
			"command": "setsid sh -c 'echo $$ > stray.pid; exec sleep 600' & echo $$ > tool.pid; sleep 600", "description": "stay",
		})
	})
	if h.config.Warm > 0 {
		h.config.Warm = 2 // one waits for its context, one is spare
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	worker := exec.Command(self, "__worker")
	worker.Dir = h.config.Workdir
	worker.Env = append(h.config.Environ, "T_CLAUDE="+h.config.Path, "T_WORKDIR="+h.config.Workdir, "T_STATE="+h.config.StateDir, "T_WARM="+strconv.Itoa(h.config.Warm))
	stdout, err := worker.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := worker.Start(); err != nil {
		t.Fatal(err)
	}
	out := bufio.NewReader(stdout)
	for line := ""; !strings.HasPrefix(line, claude.EventToolUse); {
		if line, err = out.ReadString('\n'); err != nil {
			t.Fatalf("the worker ended before it used a tool: %v", err)
		}
	}
	waitForFile(t, filepath.Join(h.config.Workdir, "stray.pid"))
	waitForFile(t, filepath.Join(h.config.Workdir, "tool.pid"))
	if len(processesIn(t, h.config.Workdir)) < 3 {
		t.Fatal("the test does not see the processes it is about")
	}
	if err := worker.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, out); err != nil && !errors.Is(err, fs.ErrClosed) {
		t.Fatal(err)
	}
	_ = worker.Wait() // it was killed
	eventually(t, "no process is left in the working folder", func() bool { return len(processesIn(t, h.config.Workdir)) == 0 })
}

// processesIn lists the running processes with this working folder.
func processesIn(t *testing.T, dir string) []string {
	t.Helper()
	links, err := filepath.Glob("/proc/[0-9]*/cwd")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, link := range links {
		if target, err := os.Readlink(link); err == nil && target == dir {
			found = append(found, link)
		}
	}
	return found
}

// killClaudes kills every claude that works in the folder, and leaves their
// supervisors alone.
func killClaudes(t *testing.T, dir string) {
	t.Helper()
	for _, link := range processesIn(t, dir) {
		name, err := os.ReadFile(filepath.Join(filepath.Dir(link), "comm"))
		if err != nil || strings.TrimSpace(string(name)) != "claude" {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(link)))
		if err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
}
