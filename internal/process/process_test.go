package process_test

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom/internal/process"
)

func TestOutputAndInputPassThrough(t *testing.T) {
	t.Parallel()
	var stdout, stderr bytes.Buffer
	c := command(t, "echo")
	input := strings.Repeat("a long line ", 1<<18)
	c.Stdin, c.Stdout, c.Stderr = strings.NewReader(input), &stdout, &stderr
	exit := wait(t, start(t, c))
	if exit != (process.Exit{}) {
		t.Errorf("exit = %+v, want a clean one", exit)
	}
	if stdout.String() != input || stderr.String() != "to stderr\n" {
		t.Errorf("got %d bytes out and %q err", stdout.Len(), stderr.String())
	}
}

func TestExitCodeIsTheCommands(t *testing.T) {
	t.Parallel()
	if exit := wait(t, start(t, command(t, "exit"))); exit.Code != 7 || exit.Signal != 0 || exit.Stopped {
		t.Errorf("exit = %+v, want code 7", exit)
	}
}

func TestEnvironmentIsOnlyWhatIsGiven(t *testing.T) {
	t.Setenv("CANARY", "must not be seen")
	var stdout bytes.Buffer
	c := command(t, "env")
	c.Env, c.Stdout = []string{"ONE=1"}, &stdout
	wait(t, start(t, c))
	if got := strings.TrimSpace(stdout.String()); got != "ONE=1" {
		t.Errorf("environment = %q, want ONE=1 alone", got)
	}
}

func TestNoEnvironmentMeansNone(t *testing.T) {
	t.Setenv("CANARY", "must not be seen")
	var stdout bytes.Buffer
	c := command(t, "env")
	c.Stdout = &stdout
	wait(t, start(t, c))
	if got := strings.TrimSpace(stdout.String()); got != "" {
		t.Errorf("environment = %q, want nothing", got)
	}
}

func TestAMissingProgramIsReported(t *testing.T) {
	t.Parallel()
	_, err := process.Start(process.Command{Path: "/does/not/exist"})
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("err = %v, want one that matches fs.ErrNotExist", err)
	}
}

func TestStopLetsAPoliteCommandFinish(t *testing.T) {
	t.Parallel()
	for _, frozen := range []bool{false, true} {
		p, out := startPiped(t, command(t, "polite"))
		readPIDs(t, out, 1)
		if frozen {
			p.Freeze()
		}
		p.Stop()
		if exit := wait(t, p); exit.Code != 3 || !exit.Stopped {
			t.Errorf("frozen %v: exit = %+v, want its own code 3 after TERM", frozen, exit)
		}
	}
}

func TestStopKillsAStubbornCommandAfterTheGrace(t *testing.T) {
	t.Parallel()
	c := command(t, "stubborn")
	c.Grace = 50 * time.Millisecond
	p, out := startPiped(t, c)
	readPIDs(t, out, 1)
	p.Stop()
	if exit := wait(t, p); exit.Signal != syscall.SIGKILL {
		t.Errorf("exit = %+v, want SIGKILL", exit)
	}
}

func TestKillEndsTheWholeFamily(t *testing.T) {
	t.Parallel()
	p, out := startPiped(t, command(t, "family"))
	pids := readPIDs(t, out, 3)
	p.Kill()
	wait(t, p)
	wantGone(t, pids)
}

func TestNothingIsLeftBehindAfterACleanExit(t *testing.T) {
	t.Parallel()
	p, out := startPiped(t, command(t, "leaver"))
	pids := readPIDs(t, out, 3)
	exit := wait(t, p)
	if exit.Code != 0 || exit.Stopped {
		t.Errorf("exit = %+v, want a clean one", exit)
	}
	if exit.LeftBehind != 2 {
		t.Errorf("left behind = %d, want 2", exit.LeftBehind)
	}
	wantGone(t, pids)
}

func TestKillNineOfTheCallerLeavesNothing(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	caller := exec.Command(self, "__child", "caller")
	stdout, err := caller.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := caller.Start(); err != nil {
		t.Fatal(err)
	}
	out := bufio.NewReader(stdout)
	pids := readPIDs(t, out, 3)
	if err := caller.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	// The output ends only when the last holder of the pipe has ended: the caller, the supervisor
	// and the family.
	if _, err := io.Copy(io.Discard, out); err != nil && !errors.Is(err, fs.ErrClosed) {
		t.Fatal(err)
	}
	_ = caller.Wait() // it was killed
	wantGone(t, pids)
}

func TestStopAndKillAfterTheEndAreHarmless(t *testing.T) {
	t.Parallel()
	p := start(t, command(t, "exit"))
	wait(t, p)
	p.Stop()
	p.Kill()
	if exit := wait(t, p); exit.Stopped {
		t.Error("an exit before Stop counts as stopped")
	}
}

// slowWriter blocks until it is released.
type slowWriter struct {
	release chan struct{}
	got     bytes.Buffer
}

func (w *slowWriter) Write(p []byte) (int, error) {
	<-w.release
	return w.got.Write(p)
}

func TestWhatWasPrintedIsReadHoweverSlowTheReader(t *testing.T) {
	t.Parallel()
	w := &slowWriter{release: make(chan struct{})}
	c := command(t, "much")
	c.Stdout, c.WaitDelay = w, time.Millisecond
	p := start(t, c)
	for alive(p.PID()) { // it ends, because its output fits into the pipe
		time.Sleep(time.Millisecond)
	}
	select {
	case <-p.Done():
		t.Error("the output was abandoned while its reader was busy")
	case <-time.After(50 * c.WaitDelay): // much longer than the allowed silence
	}
	close(w.release)
	if wait(t, p); w.got.Len() != much {
		t.Errorf("%d of %d bytes arrived", w.got.Len(), much)
	}
}

func TestTheCommandGetsExtraFiles(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	c := command(t, "extra")
	c.ExtraFiles = []*os.File{r}
	p, out := startPiped(t, c)
	r.Close()
	if _, err := w.WriteString("through the pipe\n"); err != nil {
		t.Fatal(err)
	}
	w.Close() // the supervisor has no copy that would keep it open
	if line, err := out.ReadString('\n'); err != nil || line != "through the pipe\n" {
		t.Errorf("%q, %v", line, err)
	}
	wait(t, p)
}
