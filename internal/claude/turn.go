package claude

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/bloom-runtime/bloom/internal/process"
)

// session is a conversation with claude that can be asked one thing after the
// other: with a process for every turn (coldSession), or with a living process
// that serves many (warmSession).
type session interface {
	// turn asks the prompt and returns when claude has answered or was stopped
	// because ctx ended; the cause of ctx says why. Turns do not overlap.
	turn(ctx context.Context, prompt string) outcome
	// restart forgets the session that was to be resumed: claude does not know it.
	restart()
	// close ends what is left of it. keep says that the run went well, so that
	// its process may serve the context's next task.
	close(keep bool)
}

// Why a turn was stopped, beyond the causes that come from the worker.
var (
	errTimeout     = errors.New("the task's time is up")
	errSilent      = errors.New("claude printed nothing for too long")
	errBudget      = errors.New("the task's token budget is used up")
	errHopeless    = errors.New("the API refuses, and trying again will not help")
	errAfterResult = errors.New("claude did not end after its result")
)

// outcome is all the evidence of one turn's end.
type outcome struct {
	startErr  error        // claude could not be started
	exit      process.Exit // meaningful when startErr is nil
	superErr  error        // the supervision failed
	stopped   error        // why we stopped it; nil when it ended by itself
	result    *message     // the result line; nil when none came
	sessionID string       // what init said
	stderr    string       // the end of it
	retry     *message     // the last api_retry
	limit     *rateLimit   // the last rate_limit_event
	toolUses  int          // tools that claude tried to use
	denied    []string     // tools that the stream reported as denied
	skipped   int          // size of the longest line that was too long to keep
}

// noConversation reports that claude does not know the session it was to resume.
func (o outcome) noConversation() bool {
	text := o.stderr
	if o.result != nil {
		text += " " + strings.Join(o.result.Errors, " ")
		if o.result.Result != nil && o.result.IsError {
			text += " " + *o.result.Result
		}
	}
	return strings.Contains(text, "No conversation found")
}

// refusedSession reports that claude ended by itself before it had taken up the session
// that it was to resume.
func (o outcome) refusedSession() bool {
	return o.startErr == nil && o.stopped == nil && o.sessionID == "" && o.result == nil
}

// coldSession runs one process a turn.
type coldSession struct {
	config    Config
	path      string
	args      []string // the same for every turn
	workdir   string
	resume    string // the session to go on with; empty begins one
	fork      bool
	budget    int64 // tokens; 0 means no limit
	meter     *meter
	meterMu   *sync.Mutex
	emit      *emitter
	onSession func(id string) // called once a turn, as soon as the id is known
	onMessage func(id string) // called for claude's messages; may be nil
}

var _ session = (*coldSession)(nil)

func (s *coldSession) restart() { s.resume, s.fork = "", false }

func (s *coldSession) close(bool) {}

func (s *coldSession) turn(parent context.Context, prompt string) outcome {
	if parent.Err() != nil {
		return outcome{stopped: context.Cause(parent)}
	}
	ctx, stop := context.WithCancelCause(parent)
	defer stop(nil)
	watch := s.watch(stop)
	stdout := &lineWriter{max: s.config.MaxLine, line: watch.line, tooLong: watch.tooLong}
	stderr := &lineWriter{max: maxEventText, line: watch.stderrLine, tooLong: func(int) {}}
	s.meterMu.Lock()
	s.meter.resumed = s.resume != ""
	s.meterMu.Unlock()
	p, err := process.Start(process.Command{
		Path: s.path, Args: s.turnArgs(), Dir: s.workdir, Env: append(s.config.environment(), traceEnv(parent)...),
		Stdin: strings.NewReader(prompt), Stdout: stdout, Stderr: stderr, Grace: s.config.Grace,
	})
	if err != nil {
		return outcome{startErr: err}
	}
	stopped := s.guard(ctx, p, watch)
	exit, superErr := p.Wait()
	// The copying has ended with Wait; a last line without a newline counts.
	stdout.flush()
	stderr.flush()
	if cause := ofItsOutput(ctx); cause != nil {
		stopped = cause
	}
	out := watch.seen
	out.exit, out.superErr, out.stopped = exit, superErr, stopped
	out.stderr = string(watch.stderrTail.data)
	if out.sessionID != "" {
		s.resume, s.fork = out.sessionID, false
	}
	return out
}

// watch makes the watcher of one turn, which ends the turn with stop.
func (s *coldSession) watch(stop context.CancelCauseFunc) *watcher {
	return &watcher{session: s, stop: stop, activity: make(chan struct{}, 1), resulted: make(chan struct{}), process: "cold"}
}

func (s *coldSession) turnArgs() []string {
	args := append([]string{"--print", "--output-format", "stream-json", "--verbose", "--include-partial-messages"}, s.args...)
	if s.resume != "" {
		args = append(args, "--resume", s.resume)
		if s.fork {
			args = append(args, "--fork-session")
		}
	}
	return args
}

// guard waits for the process's end and stops it when its time, its silence or
// ctx says so. It returns why it did, or nil.
func (s *coldSession) guard(ctx context.Context, p *process.Process, w *watcher) error {
	silence := time.NewTimer(s.config.Silence)
	defer silence.Stop()
	var afterResult <-chan time.Time
	resulted := w.resulted
	for {
		select {
		case <-p.Done():
			return nil
		case <-w.activity:
			silence.Reset(s.config.Silence)
			continue
		case <-resulted:
			resulted = nil
			timer := time.NewTimer(s.config.AfterResult)
			defer timer.Stop()
			afterResult = timer.C
			continue
		case <-afterResult:
			w.stop(errAfterResult)
		case <-silence.C:
			w.stop(errSilent)
		case <-ctx.Done():
		}
		p.Stop()
		<-p.Done()
		return context.Cause(ctx)
	}
}

// ofItsOutput returns the cause of ctx if claude's output is what ended it. Such a cause
// counts even if the process ended, or its result came, before anyone stopped it.
func ofItsOutput(ctx context.Context) error {
	cause := context.Cause(ctx)
	for _, of := range []error{errBudget, errHopeless, errMisbehaved} {
		if errors.Is(cause, of) {
			return cause
		}
	}
	return nil
}

// died says how a process ended, for people.
func died(exit process.Exit) string {
	if exit.Signal != 0 {
		return fmt.Sprintf("claude was ended by signal %d (%s)", int(exit.Signal), exit.Signal)
	}
	return fmt.Sprintf("claude ended with code %d", exit.Code)
}
