package process

import (
	"encoding/json"
	"errors"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"
	"time"
)

// superviseArg marks the re-executed binary as a supervisor. The environment is not used for that,
// because it is the command's.
const superviseArg = "__bloom-supervise"

const (
	orderStop    = 'T'
	orderKill    = 'K'
	orderOrphans = 'O' // asks whether there are orphans
	orderFreeze  = 'F'
	orderThaw    = 'C'

	// The file descriptors that the caller passes to the supervisor.
	ordersFD  = 3
	reportsFD = 4
	extraFD   = 5 // the first of the command's extra files

	sweepEvery      = 20 * time.Millisecond // between two checks for remaining processes
	strayGrace      = 2 * time.Second       // between TERM and KILL for processes that the command left behind
	supervisorGrace = 10 * time.Second      // how long KILL may take before the supervisor itself is killed
)

var hooked bool

func isSupervisor() bool { return len(os.Args) > 4 && os.Args[1] == superviseArg }

func init() {
	if isSupervisor() {
		runtime.LockOSThread() // run stays on the main thread; see hasOrphans
	}
}

// MaybeSupervise turns this process into a supervisor if it was started as one, and then never
// returns. main and TestMain call it first.
func MaybeSupervise() {
	if !isSupervisor() {
		hooked = true
		return
	}
	graceMS, err := strconv.Atoi(os.Args[2])
	files, filesErr := strconv.Atoi(os.Args[3])
	if err != nil || filesErr != nil {
		os.Exit(2)
	}
	s := supervisor{
		grace:   time.Duration(graceMS) * time.Millisecond,
		orders:  os.NewFile(ordersFD, "orders"),
		reports: os.NewFile(reportsFD, "reports"),
		exited:  make(chan syscall.WaitStatus, 1),
		empty:   make(chan struct{}),
	}
	for fd := range files {
		s.extra = append(s.extra, os.NewFile(uintptr(extraFD+fd), "extra"))
	}
	s.run(os.Args[4], os.Args[4:])
}

// supervisor owns one command and every descendant of it.
type supervisor struct {
	grace           time.Duration
	orders, reports *os.File
	extra           []*os.File // for the command
	pid             int
	exited          chan syscall.WaitStatus // the command itself ended
	empty           chan struct{}           // closed when no child is left
}

func (s *supervisor) run(path string, argv []string) {
	// Caught and dropped, not ignored: an ignored signal would stay ignored in the command after
	// exec, and TERM would have no effect on it.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGPIPE)
	becomeSubreaper()
	_ = setDumpable(false) // the command must not trace its supervisor; its exec resets this for the command
	syscall.CloseOnExec(ordersFD)
	syscall.CloseOnExec(reportsFD)
	proc, err := s.start(path, argv)
	if err != nil {
		s.report(startFailure(path, err))
		os.Exit(127)
	}
	s.pid = proc.Pid
	s.report(report{PID: s.pid})
	_ = os.Stdin.Close() // only the command reads it, so that it notices a closed pipe
	go s.reap()
	s.supervise()
}

// start starts the command from a thread that lives as long as this process, because the command
// dies with it, and that is not the main thread: see hasOrphans.
func (s *supervisor) start(path string, argv []string) (proc *os.Process, err error) {
	started := make(chan struct{})
	go func() {
		runtime.LockOSThread()
		proc, err = os.StartProcess(path, argv, &os.ProcAttr{
			Files: append([]*os.File{os.Stdin, os.Stdout, os.Stderr}, s.extra...),
			Env:   os.Environ(),
			Sys:   childAttributes(),
		})
		close(started)
		select {}
	}()
	<-started
	for _, file := range s.extra {
		_ = file.Close()
	}
	return proc, err
}

func startFailure(path string, err error) report {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return report{Error: path, Errno: int(errno)}
	}
	return report{Error: err.Error()}
}

// reap waits for every child, its own or adopted. When there is none left, nothing of the command
// runs.
func (s *supervisor) reap() {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil: // ECHILD
			close(s.empty)
			return
		case pid == s.pid:
			s.exited <- status
		}
	}
}

// supervise waits for the command's end or a request, ends everything, reports and exits.
func (s *supervisor) supervise() {
	orders := make(chan byte)
	go s.listen(orders)
	for {
		select {
		case status := <-s.exited:
			left := s.end(strayGrace, orders, nil)
			s.finish(status, left)
		case order := <-orders:
			grace := s.grace
			switch order {
			case orderOrphans:
				found := hasOrphans()
				s.report(report{Orphans: &found})
				continue
			case orderFreeze:
				s.signalAll(syscall.SIGSTOP)
				s.signalAll(syscall.SIGSTOP) // also what one outside the group had just started
				continue
			case orderThaw:
				s.signalAll(syscall.SIGCONT)
				continue
			case orderKill:
				grace = 0
			}
			var status syscall.WaitStatus
			s.end(grace, orders, &status)
			s.finish(status, 0)
		}
	}
}

// listen forwards requests. A closed pipe means that the caller is dead.
func (s *supervisor) listen(orders chan<- byte) {
	buffer := make([]byte, 1)
	for {
		n, err := s.orders.Read(buffer)
		if n == 1 {
			orders <- buffer[0]
		}
		if err != nil {
			for {
				orders <- orderKill
			}
		}
	}
}

// end sends TERM, waits for the grace period, then sends KILL until nothing is left. It returns how
// many processes it found. status, when not nil, receives how the command itself ended.
func (s *supervisor) end(grace time.Duration, orders <-chan byte, status *syscall.WaitStatus) (found int) {
	// Wait a moment for the reaper to see that the command was the last process.
	if s.isEmpty(sweepEvery) {
		return s.collect(status, 0)
	}
	if grace > 0 {
		found = s.signalAll(syscall.SIGTERM)
		s.signalAll(syscall.SIGCONT) // a stopped process does not get TERM
		deadline := time.After(grace)
	wait:
		for !s.isEmpty(sweepEvery) {
			select {
			case <-deadline:
				break wait
			case order := <-orders:
				if order == orderKill {
					break wait
				}
			default:
			}
		}
	}
	for !s.isEmpty(0) {
		found = max(found, s.signalAll(syscall.SIGKILL))
		s.isEmpty(sweepEvery)
	}
	return s.collect(status, found)
}

func (s *supervisor) collect(status *syscall.WaitStatus, found int) int {
	if status != nil {
		*status = <-s.exited
	}
	return found
}

// isEmpty reports whether no process is left, waiting at most the given time.
func (s *supervisor) isEmpty(wait time.Duration) bool {
	if !adoptsOrphans && !groupAlive(s.pid) {
		return true
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-s.empty:
		return true
	case <-timer.C:
	}
	select { // empty takes precedence if both are ready
	case <-s.empty:
		return true
	default:
		return false
	}
}

// signalAll signals the command's group and every descendant that left it, and returns their
// number.
func (s *supervisor) signalAll(sig syscall.Signal) int {
	strays := descendants(os.Getpid())
	_ = syscall.Kill(-s.pid, sig) // the group may have ended
	for _, pid := range strays {
		_ = syscall.Kill(pid, sig)
	}
	return len(strays)
}

func (s *supervisor) finish(status syscall.WaitStatus, left int) {
	final := report{Code: status.ExitStatus(), LeftBehind: left}
	if status.Signaled() {
		final.Code, final.Signal = -1, int(status.Signal())
	}
	s.report(final)
	os.Exit(0)
}

func (s *supervisor) report(r report) {
	line, err := json.Marshal(r)
	if err == nil {
		// Fails only if the caller is dead.
		_, _ = s.reports.Write(append(line, '\n'))
	}
}

// groupAlive reports whether any process of the group is left.
func groupAlive(pgid int) bool { return !errors.Is(syscall.Kill(-pgid, 0), syscall.ESRCH) }
