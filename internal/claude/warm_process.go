package claude

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bloom-runtime/bloom/internal/process"
)

// errProtocol stops a warm process whose output does not fit its turn.
var errProtocol = errors.New("claude's output did not fit its turn")

// warmProcess is a claude process that serves many turns, one at a time
// (--input-format stream-json). Each turn begins with a system/init line and ends with a
// result line. A process that prints anything between turns, or in another order, is not
// used again.
type warmProcess struct {
	process *process.Process
	stdin   *os.File
	key     string       // of everything that claude reads at its start
	initial map[int]bool // its descendants before the first turn, such as MCP servers

	folder string // where it runs
	inode  uint64 // the folder's number

	unclaimed atomic.Bool // it has no folder of a context yet; see claim.go
	answer    chan error  // claude's answer to the claim

	contextID   string // whose turns it serves; empty for a spare process
	sessionID   string // from its first turn
	turns       int
	firstMemory int64 // its memory after the first turn, in bytes
	idle        *time.Timer

	mu    sync.Mutex
	watch *watcher // of the current turn; nil between turns
	begun bool     // the current turn's init line was read
	fault string   // why the process must not be used again; empty if it may

	log    *slog.Logger
	ending atomic.Bool // the worker ends it
}

// startProcess starts a process that waits for its first turn.
func startProcess(c Config, path string, args []string, workdir, key string) (*warmProcess, error) {
	input, stdin, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer input.Close()
	l := &warmProcess{stdin: stdin, key: key, folder: workdir, inode: inode(workdir), log: c.Log, answer: make(chan error, 1)}
	l.unclaimed.Store(slices.Contains(args, awaitClaim))
	stdout := &lineWriter{max: c.MaxLine, line: l.line, tooLong: l.tooLong}
	stderr := &lineWriter{max: maxEventText, line: l.stderrLine, tooLong: func(int) {}}
	env, credentials, err := c.runEnvironment()
	if err != nil {
		return nil, errors.Join(err, stdin.Close())
	}
	defer closeFiles(credentials)
	l.mu.Lock() // its first line waits
	defer l.mu.Unlock()
	l.process, err = process.Start(process.Command{
		Path: path, Args: append([]string{"--input-format", "stream-json"}, args...), Dir: workdir, Env: env, ExtraFiles: credentials,
		Stdin: input, Stdout: stdout, Stderr: stderr, Grace: c.Grace,
	})
	if err != nil {
		return nil, errors.Join(err, stdin.Close())
	}
	return l, nil
}

func (l *warmProcess) setFault(why string) {
	if l.fault == "" {
		l.fault = why
	}
}

// reject stops the turn because of a line that does not belong to it. What the process prints
// until it has ended is ignored, so that the turn can be repeated.
func (l *warmProcess) reject(why string) {
	l.setFault(why)
	l.watch.stop(errProtocol)
	l.watch = nil
}

// line handles a line of output. It holds the lock while the watcher handles it, so that
// no line of this turn reaches a later one.
func (l *warmProcess) line(line []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.unclaimed.Load() {
		l.unclaimedLine(line)
		return
	}
	switch m, ok := parse(line); {
	case l.watch == nil:
		l.rejectOutOfTurn(m)
	case l.watch.ended:
		l.setFault("it printed a line after its result")
	case ok && m.Type == "system" && m.Subtype == "init":
		l.begun = true
		if l.sessionID != "" && m.SessionID != l.sessionID {
			l.reject("it changed its session")
			return
		}
		l.sessionID = m.SessionID
		l.watch.line(line)
	case ok && m.Type != "system" && m.Type != "rate_limit_event" && !l.begun:
		l.reject("it answered before its turn had begun")
	case ok && m.Type == "result" && !m.IsError && !l.watch.seen.worked && !l.watch.seen.blocked:
		// A resumed session first prints a result for its interrupted turn.
		l.reject("it gave a result without an answer")
	default:
		l.watch.line(line)
	}
}

func (l *warmProcess) tooLong(size int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.watch == nil {
		l.rejectOutOfTurn(message{})
		return
	}
	l.setFault("it printed too long a line")
	l.watch.tooLong(size)
}

func (l *warmProcess) stderrLine(line []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.watch != nil {
		l.watch.stderrLine(line)
	}
}

// turn asks the prompt and watches over the answer as a cold turn is watched
// over. When the process is still alive afterwards it has printed its result.
func (l *warmProcess) turn(ctx context.Context, c Config, w *watcher, prompt string) outcome {
	if l.initial == nil {
		// Before the first prompt: later ones may belong to tools.
		l.initial = pidSet(l.process.Descendants())
	}
	l.mu.Lock()
	if l.fault != "" { // it failed after it was chosen
		l.mu.Unlock()
		return outcome{stopped: errProtocol}
	}
	l.watch, l.begun = w, false
	l.mu.Unlock()
	l.process.Thaw()
	l.turns++
	written := make(chan struct{})
	go func() {
		defer close(written)
		l.write(userLine(prompt))
	}()
	stopped := l.supervise(ctx, c, w)
	_ = l.stdin.SetWriteDeadline(time.Now()) // do not wait until claude has read the prompt
	<-written
	_ = l.stdin.SetWriteDeadline(time.Time{})
	l.mu.Lock()
	l.watch = nil
	out := w.seen
	out.stderr = string(w.stderrTail.data)
	l.mu.Unlock()
	out.launched, out.stopped = true, stopped
	if out.result != nil && l.turns == 1 {
		l.firstMemory = l.process.Memory()
	}
	// After an answer the process's end does not matter to the turn.
	if out.result == nil && l.exited() {
		out.exit, out.superErr = l.process.Wait()
	}
	return out
}

// supervise waits for the turn's result. When ctx ends, or claude prints nothing for too
// long, it stops the process and returns the reason. It first interrupts the turn, so that
// the session stays consistent.
func (l *warmProcess) supervise(ctx context.Context, c Config, w *watcher) error {
	silence := time.NewTimer(c.Silence)
	defer silence.Stop()
	for {
		select {
		case <-l.process.Done():
			return causeFromOutput(ctx)
		case <-w.resulted:
			return causeFromOutput(ctx)
		case <-w.activity:
			silence.Reset(w.patience())
			continue
		case <-silence.C:
			if left := w.patience(); left > 0 {
				silence.Reset(left)
				continue
			}
			w.stop(errSilent)
		case <-ctx.Done():
		}
		w.note(func(*outcome) { w.stopping = true })
		cause := context.Cause(ctx)
		if !errors.Is(cause, errProtocol) && !errors.Is(cause, errSilent) && !errors.Is(cause, errToolOffered) {
			l.interrupt(c, w)
		}
		l.end()
		return cause
	}
}

// interrupt asks claude to end the turn and waits up to half the grace for its result.
func (l *warmProcess) interrupt(c Config, w *watcher) {
	grace := c.Grace / 2
	_ = l.stdin.SetWriteDeadline(time.Now().Add(grace))
	l.write(map[string]any{"type": "control_request", "request_id": "interrupt", "request": map[string]string{"subtype": "interrupt"}})
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-w.resulted:
	case <-l.process.Done():
	case <-timer.C:
	}
}

// write writes one line. An error means that the process is ending, which its end shows.
func (l *warmProcess) write(v any) {
	line, err := json.Marshal(v)
	if err == nil {
		_, _ = l.stdin.Write(append(line, '\n'))
	}
}

// exited reports whether the process has ended.
func (l *warmProcess) exited() bool {
	select {
	case <-l.process.Done():
		return true
	default:
		return false
	}
}

// end stops the process and waits until its whole process tree has ended.
func (l *warmProcess) end() {
	l.ending.Store(true)
	l.process.Stop()
	<-l.process.Done()
	_ = l.stdin.Close()
}

// finish lets the process end by itself, as a process for one turn does, and returns how
// many processes it left behind. It waits until all of them have ended.
func (l *warmProcess) finish(wait time.Duration) (leftBehind int) {
	l.ending.Store(true)
	_ = l.stdin.Close()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-l.process.Done():
	case <-timer.C:
		l.process.Stop()
	}
	exit, _ := l.process.Wait() // only the processes that it left matter
	return exit.LeftBehind
}
