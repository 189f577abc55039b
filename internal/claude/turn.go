package claude

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bloom-runtime/bloom/internal/process"
)

// session is a conversation with claude, of one or more turns. Each turn has a process of
// its own (coldSession), or one process serves many turns (warmSession).
type session interface {
	// turn sends the prompt and returns when claude has answered, or was stopped because
	// ctx ended, for its cause. Turns do not overlap.
	turn(ctx context.Context, prompt string) outcome
	// restart makes the next turn begin a new session, because claude does not know the
	// one to resume.
	restart()
	// close frees the session's resources. With keep, its process may serve the context's
	// next task.
	close(keep bool)
}

// Reasons to stop a turn, besides the causes that come from the worker.
var (
	errTimeout      = errors.New("the task's time is up")
	errSilent       = errors.New("claude printed nothing for too long")
	errBudget       = errors.New("the task's token budget is used up")
	errNotRetryable = errors.New("the API refused the request, and a retry would not help")
	errAfterResult  = errors.New("claude did not end after its result")
	errToolOffered  = errors.New("claude offers a tool that tasks may not use")
	errToolUsed     = errors.New("claude used a tool that tasks may not use")
)

// outcome is the evidence of how a turn ended.
type outcome struct {
	startErr  error        // claude could not be started
	exit      process.Exit // valid if startErr is nil
	superErr  error        // the supervision failed
	stopped   error        // why the worker stopped claude; nil if it ended by itself
	result    *message     // the result line; nil if there is none
	sessionID string       // from the init line
	stderr    string       // the last 8 KiB
	retry     *message     // the last api_retry
	limit     *rateLimit   // the last rate_limit_event
	launched  bool         // a process of claude was given the prompt
	worked    bool         // claude has begun to answer
	earlier   string       // the parts of its answer that the last one continues
	lastText  string       // the last text that it wrote, with the earlier parts
	blocked   bool         // a hook ended the turn
	toolUses  int          // number of tools that claude tried to use
	denied    []string     // tools that the stream reported as denied
	skipped   int          // length of the longest line that was too long

	// Work in the background. The turn lasts until the result after its end.
	background []backgroundTask // still running
	told       bool             // some has ended, which claude has not yet told the model
	unwatched  bool             // some was started by a version that does not report it
}

// unfinished reports whether background work that ends by itself is still running, or the model
// was not told of its end.
func (o outcome) unfinished() bool {
	return o.told || slices.ContainsFunc(o.background, func(b backgroundTask) bool { return !b.endless() })
}

// noConversation reports whether claude failed before it began because it did not know the session
// to resume. Anything else may also print such words.
func (o outcome) noConversation() bool {
	if o.worked || o.result != nil && !o.result.IsError {
		return false
	}
	text := o.stderr
	if o.result != nil {
		text += " " + strings.Join(o.result.Errors, " ")
		if o.result.Result != nil {
			text += " " + *o.result.Result
		}
	}
	return strings.Contains(text, "No conversation found")
}

// refusedSession reports whether claude ended by itself before it resumed the session.
func (o outcome) refusedSession() bool {
	return o.startErr == nil && o.stopped == nil && o.sessionID == "" && o.result == nil
}

// coldSession runs each turn in a process of its own.
type coldSession struct {
	config    Config
	path      string
	args      []string // the same for every turn
	tools     *toolPolicy
	workdir   string
	resume    string // the session to resume; empty begins a new one
	fork      bool
	budget    int64 // tokens; 0 means no limit
	meter     *meter
	meterMu   *sync.Mutex
	emit      *emitter
	asks      *taskRun        // asks people; nil if it does not
	onSession func(id string) // called once per turn, as soon as the id is known
	onMessage func(id string) // called for claude's messages; may be nil
}

var _ session = (*coldSession)(nil)

func (s *coldSession) restart() { s.resume, s.fork = "", false }

func (s *coldSession) close(bool) {}

func (s *coldSession) turn(parent context.Context, prompt string) outcome {
	out := s.attempt(parent, prompt)
	if errors.Is(out.stopped, errToolOffered) && parent.Err() == nil {
		out = s.attempt(parent, prompt) // it was not known that this claude has the tool
	}
	return out
}

// attempt runs the turn in one process.
func (s *coldSession) attempt(parent context.Context, prompt string) outcome {
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
	env, credentials, err := s.config.runEnvironment()
	if err != nil {
		return outcome{startErr: err}
	}
	stdin := io.Reader(strings.NewReader(prompt))
	if s.asks != nil {
		asking, input, err := s.asks.begin(ctx, watch, prompt)
		if err != nil {
			closeFiles(credentials)
			return outcome{startErr: err}
		}
		defer asking.close()
		defer input.Close()
		watch.asks, stdin = asking, input
	}
	p, err := process.Start(process.Command{
		Path: s.path, Args: s.turnArgs(), Dir: s.workdir, Env: append(env, traceEnv(parent)...), ExtraFiles: credentials,
		Stdin: stdin, Stdout: stdout, Stderr: stderr, Grace: s.config.Grace,
	})
	closeFiles(credentials)
	if err != nil {
		return outcome{startErr: err}
	}
	stopped := s.supervise(ctx, p, watch)
	exit, superErr := p.Wait()
	// All output was copied when Wait returned. The last lines may lack a newline.
	stdout.flush()
	stderr.flush()
	if cause := causeFromOutput(ctx); cause != nil {
		stopped = cause
	}
	out := watch.seen
	out.launched, out.exit, out.superErr, out.stopped = true, exit, superErr, stopped
	out.stderr = string(watch.stderrTail.data)
	if out.sessionID != "" {
		s.resume, s.fork = out.sessionID, false
	}
	return out
}

// watch returns the watcher of one turn, which calls stop to end it.
func (s *coldSession) watch(stop context.CancelCauseFunc) *watcher {
	return &watcher{session: s, stop: stop, last: time.Now(), activity: make(chan struct{}, 1), resulted: make(chan struct{}), process: "cold", forbidden: map[string]string{}}
}

func (s *coldSession) turnArgs() []string {
	args := append([]string{"--print", "--output-format", "stream-json", "--verbose", "--include-partial-messages", s.tools.option()}, s.args...)
	if s.resume != "" {
		args = append(args, "--resume", s.resume)
		if s.fork {
			args = append(args, "--fork-session")
		}
	}
	return args
}

// supervise waits until the process ends. When ctx ends, or claude prints nothing for too
// long or does not end after its result, it stops the process and returns the reason.
func (s *coldSession) supervise(ctx context.Context, p *process.Process, w *watcher) error {
	silence := time.NewTimer(s.config.Silence)
	defer silence.Stop()
	var afterResult <-chan time.Time
	resulted := w.resulted
	for {
		select {
		case <-p.Done():
			return nil
		case <-w.activity:
			silence.Reset(w.patience())
			continue
		case <-resulted:
			resulted = nil
			if w.asks != nil {
				w.asks.close()
			}
			timer := time.NewTimer(s.config.AfterResult)
			defer timer.Stop()
			afterResult = timer.C
			continue
		case <-afterResult:
			w.stop(errAfterResult)
		case <-silence.C:
			if left := w.patience(); left > 0 {
				silence.Reset(left)
				continue
			}
			w.stop(errSilent)
		case <-ctx.Done():
		}
		w.note(func(*outcome) { w.stopping = true })
		if errors.Is(context.Cause(ctx), errSuspended) {
			p.Kill() // it would write that the call was interrupted
		} else {
			p.Stop()
		}
		<-p.Done()
		return context.Cause(ctx)
	}
}

// causeFromOutput returns the cause of ctx if claude's output caused it. Such a cause
// counts even if the process ended, or printed its result, before it was stopped.
func causeFromOutput(ctx context.Context) error {
	cause := context.Cause(ctx)
	for _, of := range []error{errBudget, errNotRetryable, errProtocol, errToolOffered, errToolUsed, errSuspended, errNotResumed} {
		if errors.Is(cause, of) {
			return cause
		}
	}
	return nil
}

// exitText describes how a process ended.
func exitText(exit process.Exit) string {
	if exit.Signal != 0 {
		return fmt.Sprintf("claude was ended by signal %d (%s)", int(exit.Signal), exit.Signal)
	}
	return fmt.Sprintf("claude ended with code %d", exit.Code)
}
