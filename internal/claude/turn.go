package claude

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/bloom-runtime/bloom/internal/process"
)

// session is a conversation with claude that can be asked one thing after the
// other. Today every turn is a process of its own (coldSession); a living
// process that serves many turns fits behind the same interface.
type session interface {
	// turn asks the prompt and returns when claude has answered or was stopped
	// because ctx ended; the cause of ctx says why. Turns do not overlap.
	turn(ctx context.Context, prompt string) outcome
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
}

var _ session = (*coldSession)(nil)

func (s *coldSession) turn(parent context.Context, prompt string) outcome {
	ctx, stop := context.WithCancelCause(parent)
	defer stop(nil)
	watch := &watcher{session: s, stop: stop, activity: make(chan struct{}, 1), resulted: make(chan struct{})}
	stdout := &lineWriter{max: s.config.MaxLine, line: watch.line, tooLong: watch.tooLong}
	stderr := &lineWriter{max: maxEventText, line: watch.stderrLine, tooLong: func(int) {}}
	s.meterMu.Lock()
	s.meter.resumed = s.resume != ""
	s.meterMu.Unlock()
	p, err := process.Start(process.Command{
		Path: s.path, Args: s.turnArgs(), Dir: s.workdir, Env: s.config.environment(),
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
	if cause := context.Cause(ctx); errors.Is(cause, errBudget) {
		stopped = cause // also when it ended by itself just before it was stopped
	}
	out := watch.seen
	out.exit, out.superErr, out.stopped = exit, superErr, stopped
	out.stderr = string(watch.stderrTail.data)
	if out.sessionID != "" {
		s.resume, s.fork = out.sessionID, false
	}
	return out
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

// watcher reads the stream of one turn: it keeps the evidence, meters, emits
// events and stops what cannot end well. Its methods are called from the two
// goroutines that copy stdout and stderr, each its own.
type watcher struct {
	session  *coldSession
	stop     context.CancelCauseFunc
	activity chan struct{}
	resulted chan struct{} // closed at the first result

	mu         sync.Mutex
	seen       outcome
	stderrTail tail
	unreadable int
}

func (w *watcher) alive() {
	select {
	case w.activity <- struct{}{}:
	default:
	}
}

func (w *watcher) tooLong(size int) {
	w.alive()
	w.mu.Lock()
	w.seen.skipped = max(w.seen.skipped, size)
	w.mu.Unlock()
	w.session.emit.send(EventWarning, data{"code": "line_too_long", "size": size,
		"text": fmt.Sprintf("a line of %d bytes was skipped: more than the worker keeps", size)})
}

func (w *watcher) stderrLine(line []byte) {
	w.alive()
	w.mu.Lock()
	w.stderrTail.max = 8 << 10
	_, _ = w.stderrTail.Write(append(line, '\n'))
	w.mu.Unlock()
	w.session.emit.text(EventStderr, "text", string(line), data{})
}

func (w *watcher) line(line []byte) {
	w.alive()
	m, ok := parse(line)
	if !ok {
		w.noise(line)
		return
	}
	w.count(m)
	switch m.Type {
	case "system":
		w.system(m)
	case "assistant", "user":
		w.noteBackground(m)
		w.session.emit.show(m)
	case "rate_limit_event":
		w.rateLimited(m)
	case "result":
		w.result(m)
	}
}

// noise is output that is no JSON: shown a few times, then only counted.
func (w *watcher) noise(line []byte) {
	w.unreadable++
	if w.unreadable <= 20 {
		w.session.emit.text(EventWarning, "text", string(line), data{"code": "unreadable_line"})
	}
}

// count meters the line and stops the run when its budget is used up.
func (w *watcher) count(m message) {
	s := w.session
	s.meterMu.Lock()
	before := s.meter.total()
	s.meter.observe(m)
	after := s.meter.total()
	s.meterMu.Unlock()
	if after == before {
		return
	}
	if m.Type != "result" {
		s.emit.send(EventUsage, data{
			"input_tokens": after.Input, "output_tokens": after.Output,
			"cache_creation_tokens": after.CacheCreation, "cache_read_tokens": after.CacheRead,
			"tokens_used": after.budget(),
		})
	}
	if s.budget > 0 && after.budget() > s.budget {
		w.stop(errBudget)
	}
}

func (w *watcher) system(m message) {
	switch m.Subtype {
	case "init":
		w.mu.Lock()
		first := w.seen.sessionID == ""
		w.seen.sessionID = m.SessionID
		w.mu.Unlock()
		if !first || m.SessionID == "" {
			return
		}
		w.session.onSession(m.SessionID)
		w.session.emit.send(EventSession, data{
			"session_id": m.SessionID, "resumed": w.session.resume != "", "forked": w.session.fork,
			"model": m.Model, "claude_version": m.Version, "permission_mode": m.PermissionMode, "tools": m.Tools,
		})
	case "api_retry":
		w.apiRetry(m)
	case "permission_denied":
		w.session.emit.warn("permission_denied", "claude was not permitted to use "+m.ToolName)
	}
}

// apiRetry shows that claude tries the API again, and ends the run when that
// can never succeed.
func (w *watcher) apiRetry(m message) {
	m.Error = append(json.RawMessage(nil), m.Error...)
	w.mu.Lock()
	w.seen.retry = &m
	w.mu.Unlock()
	w.session.emit.send(EventAPIRetry, data{
		"attempt": m.Attempt, "max_retries": m.MaxRetries, "delay_ms": m.RetryDelayMS,
		"status": m.ErrorStatus, "error": plain(m.Error),
	})
	switch m.ErrorStatus {
	case 400, 401, 403:
		w.stop(errHopeless)
	}
}

func (w *watcher) rateLimited(m message) {
	if m.RateLimit == nil {
		return
	}
	w.mu.Lock()
	w.seen.limit = m.RateLimit
	w.mu.Unlock()
	w.session.emit.send(EventRateLimit, data{
		"status": m.RateLimit.Status, "limit": m.RateLimit.Kind, "resets_at": m.RateLimit.resetMillis(),
	})
}

// resetMillis is when the limit ends, in Unix milliseconds; 0 when not said.
func (r *rateLimit) resetMillis() int64 {
	switch {
	case r == nil || r.ResetsAt <= 0:
		return 0
	case r.ResetsAt > 1e11: // already milliseconds
		return r.ResetsAt
	}
	return r.ResetsAt * 1000
}

func (w *watcher) result(m message) {
	w.mu.Lock()
	first := w.seen.result == nil
	w.seen.result = &m
	w.mu.Unlock()
	if first {
		close(w.resulted)
	}
}

// noteBackground says when the model puts work into the background: it ends with
// the turn, while the result still reads like a success.
func (w *watcher) noteBackground(m message) {
	for _, b := range m.Message.blocks() {
		if b.Type != "tool_use" {
			continue
		}
		var input struct {
			Background bool `json:"run_in_background"`
		}
		if json.Unmarshal(b.Input, &input) == nil && input.Background {
			w.session.emit.warn("background_work", b.Name+" was started in the background; it ends with the turn, whatever the answer says")
		}
	}
}

// died says how a process ended, for people.
func died(exit process.Exit) string {
	if exit.Signal != 0 {
		return fmt.Sprintf("claude was ended by signal %d (%s)", int(exit.Signal), syscall.Signal(exit.Signal))
	}
	return fmt.Sprintf("claude ended with code %d", exit.Code)
}
