package claude

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/bloom-runtime/bloom/internal/process"
)

// errMisbehaved ends a living process that does not keep to its turns.
var errMisbehaved = errors.New("claude's living process did not keep to its turn")

// living is one claude process that serves many turns, one at a time
// (--input-format stream-json). Each turn begins with a system/init line and ends
// with a result line. Whatever else the process prints between turns, or in
// another order, spoils it: it is not used again.
type living struct {
	process *process.Process
	stdin   *os.File
	key     string       // of all that is fixed at its start
	before  map[int]bool // its descendants before the first turn, such as MCP servers

	contextID string // whose turns it serves; empty for a spare one
	sessionID string // what its first turn said
	turns     int
	began     int64 // its memory after the first turn, in bytes
	idle      *time.Timer

	mu      sync.Mutex
	watch   *watcher // of the present turn; nil between turns
	begun   bool     // the present turn's init came
	spoiled string   // why it is not used again
}

// startLiving starts a process that waits for its first turn.
func startLiving(c Config, path string, args []string, workdir, key string) (*living, error) {
	input, stdin, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer input.Close()
	l := &living{stdin: stdin, key: key}
	stdout := &lineWriter{max: c.MaxLine, line: l.line, tooLong: l.tooLong}
	stderr := &lineWriter{max: maxEventText, line: l.stderrLine, tooLong: func(int) {}}
	l.process, err = process.Start(process.Command{
		Path: path, Args: append([]string{"--input-format", "stream-json"}, args...), Dir: workdir, Env: c.environment(),
		Stdin: input, Stdout: stdout, Stderr: stderr, Grace: c.Grace,
	})
	if err != nil {
		return nil, errors.Join(err, stdin.Close())
	}
	return l, nil
}

func (l *living) spoil(why string) {
	if l.spoiled == "" {
		l.spoiled = why
	}
}

// line takes a line of output. The lock is held while the watcher digests it, so
// that nothing of this turn reaches a later one.
func (l *living) line(line []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch m, ok := parse(line); {
	case l.watch == nil:
		l.spoil("it printed something between two turns")
	case l.watch.seen.result != nil:
		l.spoil("it printed something after its result")
	case ok && m.Type == "system" && m.Subtype == "init":
		l.begun = true
		if l.sessionID != "" && m.SessionID != l.sessionID {
			l.spoil("it changed its session")
			l.watch.stop(errMisbehaved)
			return
		}
		l.sessionID = m.SessionID
		l.watch.line(line)
	case ok && m.Type != "system" && m.Type != "rate_limit_event" && !l.begun:
		l.spoil("it answered before its turn had begun")
		l.watch.stop(errMisbehaved)
	case ok && m.Type == "result" && !m.IsError && !l.watch.worked:
		// A resumed session first closes what was interrupted: not our answer.
		l.spoil("it gave a result without an answer")
		l.watch.stop(errMisbehaved)
	default:
		l.watch.line(line)
	}
}

func (l *living) tooLong(size int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.spoil("it printed a line that is too long")
	if l.watch != nil {
		l.watch.tooLong(size)
	}
}

func (l *living) stderrLine(line []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.watch != nil {
		l.watch.stderrLine(line)
	}
}

// turn asks the prompt and watches over the answer as a cold turn is watched
// over. When the process is still alive afterwards it has printed its result.
func (l *living) turn(ctx context.Context, c Config, w *watcher, prompt string) outcome {
	if l.before == nil {
		// Before the first prompt: later it may be a tool's.
		l.before = set(l.process.Descendants())
	}
	l.mu.Lock()
	if l.spoiled != "" { // since it was chosen
		l.mu.Unlock()
		return outcome{stopped: errMisbehaved}
	}
	l.watch, l.begun = w, false
	l.mu.Unlock()
	l.turns++
	written := make(chan struct{})
	go func() {
		defer close(written)
		l.say(map[string]any{"type": "user", "message": map[string]string{"role": "user", "content": prompt}, "parent_tool_use_id": nil, "session_id": ""})
	}()
	stopped := l.guard(ctx, c, w)
	_ = l.stdin.SetWriteDeadline(time.Now()) // a prompt that nobody reads is not waited for
	<-written
	_ = l.stdin.SetWriteDeadline(time.Time{})
	l.mu.Lock()
	l.watch = nil
	out := w.seen
	out.stderr = string(w.stderrTail.data)
	l.mu.Unlock()
	out.stopped = stopped
	// How the process ended after its answer does not concern the turn, and whether it has
	// ended yet is a matter of chance.
	if out.result == nil && l.dead() {
		out.exit, out.superErr = l.process.Wait()
	}
	return out
}

// guard waits for the turn's result and stops the process when the time, the
// silence or ctx says so: an interrupt first, so that the session is left in
// order, then the end. It returns why it did, or nil.
func (l *living) guard(ctx context.Context, c Config, w *watcher) error {
	silence := time.NewTimer(c.Silence)
	defer silence.Stop()
	for {
		select {
		case <-l.process.Done():
			return ofItsOutput(ctx)
		case <-w.resulted:
			return ofItsOutput(ctx)
		case <-w.activity:
			silence.Reset(c.Silence)
			continue
		case <-silence.C:
			w.stop(errSilent)
		case <-ctx.Done():
		}
		cause := context.Cause(ctx)
		if !errors.Is(cause, errMisbehaved) && !errors.Is(cause, errSilent) {
			l.interrupt(c, w)
		}
		l.end()
		return cause
	}
}

// interrupt asks claude to end the turn and waits for its result, for a part of
// the grace.
func (l *living) interrupt(c Config, w *watcher) {
	grace := c.Grace / 2
	_ = l.stdin.SetWriteDeadline(time.Now().Add(grace))
	l.say(map[string]any{"type": "control_request", "request_id": "interrupt", "request": map[string]string{"subtype": "interrupt"}})
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-w.resulted:
	case <-l.process.Done():
	case <-timer.C:
	}
}

// say writes one line. An error means that the process is ending, which is seen
// elsewhere.
func (l *living) say(v any) {
	line, err := json.Marshal(v)
	if err == nil {
		_, _ = l.stdin.Write(append(line, '\n'))
	}
}

// dead reports whether the process has ended.
func (l *living) dead() bool {
	select {
	case <-l.process.Done():
		return true
	default:
		return false
	}
}

// end ends the process and waits until nothing of it is left.
func (l *living) end() {
	l.process.Stop()
	<-l.process.Done()
	_ = l.stdin.Close()
}

// settle is how long processes of a turn may take to end after its result.
const settle = 300 * time.Millisecond

// finish lets the process end by itself, as one of a single turn does, and returns
// how many processes it left behind. It waits until nothing of it is left.
func (l *living) finish(wait time.Duration) (leftBehind int) {
	_ = l.stdin.Close()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-l.process.Done():
	case <-timer.C:
		l.process.Stop()
	}
	exit, _ := l.process.Wait() // it has served; only what it left counts
	return exit.LeftBehind
}

// strays counts the processes that have come since the first prompt: what tools
// left running, and what claude itself runs besides.
func (l *living) strays() (n int) {
	if l.before == nil {
		return 0 // no turn yet
	}
	for deadline := time.After(settle); ; {
		n = 0
		for _, pid := range l.process.Descendants() {
			if !l.before[pid] {
				n++
			}
		}
		if n == 0 {
			return 0
		}
		select {
		case <-deadline:
			return n
		case <-time.After(settle / 10):
		}
	}
}

// unfit says why the process must not serve another turn; empty when it may.
// Work that a turn left running is not left to a later task.
func (l *living) unfit(limits warmLimits) string {
	if l.dead() {
		return "it ended"
	}
	l.mu.Lock()
	spoiled := l.spoiled
	l.mu.Unlock()
	if spoiled != "" {
		return spoiled
	}
	if n := l.strays(); n > 0 {
		return fmt.Sprintf("%d processes are left of its turns", n)
	}
	used := l.process.Memory()
	if l.turns > 0 && l.began == 0 {
		l.began = used
	}
	switch {
	case used > limits.memory:
		return fmt.Sprintf("it uses %d MiB", used>>20)
	case l.began > 0 && used-l.began > limits.growth:
		return fmt.Sprintf("it uses %d MiB after %d turns, and used %d MiB after the first", used>>20, l.turns, l.began>>20)
	}
	return ""
}

func set(pids []int) map[int]bool {
	m := map[int]bool{}
	for _, pid := range pids {
		m[pid] = true
	}
	return m
}
