// Package process runs a command so that nothing of it outlives its caller.
//
// The command runs under a supervising child: this binary, re-executed (see MaybeSupervise). The
// supervisor puts the command into its own process group, adopts the command's orphaned
// descendants, and holds one end of a pipe whose other end only the caller has. When the caller
// asks, or when the pipe closes because the caller died (even by kill -9), the supervisor ends
// everything: TERM, a grace period, then KILL until nothing is left.
//
// On Linux "everything" includes descendants that left the process group (setsid, daemons): the
// supervisor is their subreaper. The caller in turn is the subreaper of its supervisors, so that
// even a command that kills its supervisor leaves nothing: the caller then kills every child that
// Start did not create. A program that calls Start must therefore not start other children that
// have to survive that. On other Unixes only the process group is ended; FullTree reports which
// applies.
//
// The package knows nothing about the purpose of the processes.
package process

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// Defaults of Command.
const (
	DefaultGrace     = 5 * time.Second
	DefaultWaitDelay = 3 * time.Second
)

// answerTimeout is how long a supervisor may take to answer.
const answerTimeout = 2 * time.Second

// ErrNotHooked means that main did not call MaybeSupervise first: re-executing the binary would run
// main instead of a supervisor.
var ErrNotHooked = errors.New("process: main must call MaybeSupervise before anything else")

// Command describes what to run.
type Command struct {
	Path string   // the program; not searched for on the PATH
	Args []string // without the program's name
	Dir  string   // working directory; empty means the caller's
	Env  []string // the whole environment as NAME=value; nothing is inherited

	Stdin  io.Reader // nil reads as empty
	Stdout io.Writer // nil discards
	Stderr io.Writer // nil discards

	// ExtraFiles are the command's file descriptors 3 and following. Start does not close them.
	ExtraFiles []*os.File

	// Grace is how long the command has between TERM and KILL. Zero means
	// DefaultGrace.
	Grace time.Duration
	// WaitDelay bounds how long the output may be silent after every process has ended: it is read
	// to the end, without waiting for another process that holds the pipe open. Zero means
	// DefaultWaitDelay.
	WaitDelay time.Duration
}

// Exit describes how a command ended.
type Exit struct {
	Code   int            // exit code; -1 when a signal ended it
	Signal syscall.Signal // the signal that ended it, 0 when none did
	// Stopped reports that Stop or Kill was called.
	Stopped bool
	// LeftBehind counts the processes that the command left running when it ended. They have been
	// ended as well.
	LeftBehind int
}

// Process is a started command. Its methods are safe for concurrent use.
type Process struct {
	cmd   *exec.Cmd
	pid   int
	grace time.Duration
	done  chan struct{}
	exit  Exit
	err   error

	reports *os.File // from the supervisor
	reader  *bufio.Reader
	asking  sync.Mutex
	answers chan bool // to Orphans

	stdout, stderr *output // nil when nobody wants it

	mu       sync.Mutex
	lifeline *os.File
	stopped  bool
}

// Start runs the command under a supervisor. Its error is about starting: that for a missing
// program matches fs.ErrNotExist.
func Start(c Command) (*Process, error) {
	if !hooked {
		return nil, ErrNotHooked
	}
	self, err := executable()
	if err != nil {
		return nil, fmt.Errorf("find own executable: %w", err)
	}
	grace := cmp.Or(c.Grace, DefaultGrace)
	args := append([]string{superviseArg, strconv.FormatInt(grace.Milliseconds(), 10), strconv.Itoa(len(c.ExtraFiles)), c.Path}, c.Args...)
	cmd := exec.Command(self, args...) //nolint:noctx // ended explicitly; cancelling a context would leave the group behind
	cmd.Dir, cmd.Env = c.Dir, c.Env
	if cmd.Env == nil {
		cmd.Env = []string{} // nil would inherit everything
	}
	cmd.Stdin, cmd.ExtraFiles = c.Stdin, c.ExtraFiles
	cmd.WaitDelay = cmp.Or(c.WaitDelay, DefaultWaitDelay)
	// A separate process group, so that the terminal's ^C reaches only the caller.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stdout, err := pipeTo(&cmd.Stdout, c.Stdout, cmd.WaitDelay)
	if err != nil {
		return nil, err
	}
	stderr, err := pipeTo(&cmd.Stderr, c.Stderr, cmd.WaitDelay)
	if err != nil {
		stdout.discard()
		return nil, err
	}
	p, err := start(cmd, grace)
	if err != nil {
		stdout.discard()
		stderr.discard()
		return nil, err
	}
	return p.begin(stdout, stderr), nil
}

// begin starts to copy the output and to wait for the end.
func (p *Process) begin(stdout, stderr *output) *Process {
	p.stdout, p.stderr = stdout, stderr
	for _, o := range []*output{stdout, stderr} {
		o.begin()
	}
	go p.wait()
	return p
}

func start(cmd *exec.Cmd, grace time.Duration) (*Process, error) {
	orders, lifeline, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	reports, report, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, orders.Close(), lifeline.Close())
	}
	cmd.ExtraFiles = append([]*os.File{orders, report}, cmd.ExtraFiles...)
	err = startSupervisor(cmd)
	_ = orders.Close() // the child has its own copy
	_ = report.Close()
	if err != nil {
		return nil, errors.Join(err, lifeline.Close(), reports.Close())
	}
	p := &Process{cmd: cmd, grace: grace, done: make(chan struct{}), lifeline: lifeline, reports: reports, reader: bufio.NewReader(reports), answers: make(chan bool, 1)}
	first, err := readReport(p.reader)
	if err != nil || first.Error != "" {
		startErr := first.startError(err)
		_ = cmd.Wait() // startErr is more informative
		supervisorEnded(cmd.Process.Pid)
		return nil, errors.Join(startErr, lifeline.Close(), reports.Close())
	}
	p.pid = first.PID
	return p, nil
}

// PID returns the command's process id, which is also its process group.
func (p *Process) PID() int { return p.pid }

// Done is closed when the command and everything it started have ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Wait waits for Done and returns how the command ended. Its error is about the supervision; a
// failing command is not an error.
func (p *Process) Wait() (Exit, error) {
	<-p.done
	return p.exit, p.err
}

// Stop ends everything: TERM, the grace period, then KILL. It returns immediately.
func (p *Process) Stop() { p.order(orderStop) }

// Kill ends everything without a grace period. It returns immediately.
func (p *Process) Kill() { p.order(orderKill) }

// Freeze stops the command and everything it started, until Thaw, Stop or Kill. It returns
// immediately.
func (p *Process) Freeze() { p.tell(orderFreeze) }

// Thaw lets a frozen command run on. It returns immediately.
func (p *Process) Thaw() { p.tell(orderThaw) }

func (p *Process) tell(order byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lifeline != nil {
		_, _ = p.lifeline.Write([]byte{order}) // fails only if the supervisor has ended
	}
}

func (p *Process) order(order byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lifeline == nil {
		return
	}
	if !p.stopped {
		p.stopped = true
		// A supervisor that cannot end everything is itself killed; the command then dies with its
		// parent.
		timer := time.AfterFunc(p.grace+supervisorGrace, func() { _ = p.cmd.Process.Kill() })
		go func() { <-p.done; timer.Stop() }()
	}
	_, _ = p.lifeline.Write([]byte{order}) // fails only if the supervisor has ended
}

// Orphans reports whether a process that the command started still exists although the one that
// started it has ended. The supervisor has adopted it, so that the kernel knows: unlike in
// Descendants, none is missed, however fast it is replaced by its own child. Without an answer there
// may be one.
func (p *Process) Orphans() bool {
	p.asking.Lock()
	defer p.asking.Unlock()
	p.mu.Lock()
	ask := p.lifeline != nil && !p.stopped
	if ask {
		_, _ = p.lifeline.Write([]byte{orderOrphans}) // fails only if the supervisor has ended
	}
	p.mu.Unlock()
	if !ask {
		return false // they are being ended
	}
	timeout := time.NewTimer(answerTimeout)
	defer timeout.Stop()
	select {
	case found := <-p.answers:
		return found
	case <-p.done:
		return false
	case <-timeout.C:
		return true // the command may have stopped its supervisor
	}
}

// lastReport forwards answers until the command has ended.
func (p *Process) lastReport() (report, error) {
	for {
		r, err := readReport(p.reader)
		if err != nil || r.Orphans == nil {
			return r, err
		}
		select {
		case p.answers <- *r.Orphans:
		default: // an answer that came too late is still there
		}
	}
}

func (p *Process) wait() {
	last, reportErr := p.lastReport()
	waitErr := p.cmd.Wait()
	supervisorEnded(p.cmd.Process.Pid)
	var orphanErr error
	if reportErr != nil {
		last.LeftBehind, orphanErr = endOrphans()
	}
	drainErr := drain(p.stdout, p.stderr)
	p.mu.Lock()
	_ = p.lifeline.Close()
	p.lifeline = nil
	p.exit = Exit{Code: last.Code, Signal: syscall.Signal(last.Signal), Stopped: p.stopped, LeftBehind: last.LeftBehind}
	p.mu.Unlock()
	_ = p.reports.Close()
	if reportErr != nil {
		// The supervisor was killed, and the command with it.
		p.exit.Code, p.exit.Signal = -1, syscall.SIGKILL
		p.err = fmt.Errorf("supervisor ended without a report: %w", errors.Join(reportErr, waitErr, orphanErr))
	}
	if errors.Is(waitErr, exec.ErrWaitDelay) { // the rest of waitErr is in the report
		drainErr = errors.Join(drainErr, waitErr)
	}
	p.err = errors.Join(p.err, drainErr)
	close(p.done)
}
