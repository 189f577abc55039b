package claude

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/storable"
	"github.com/bloom-runtime/bloom/internal/timing"
)

// taskRun is one run of one task.
type taskRun struct {
	runner    *Runner
	config    Config
	task      bloom.Task
	emit      *emitter
	workdir   string
	exclusive bool // no other task of the context is running

	// The context's transcript; see transcripts.go.
	stored      *transcriptVersion // what the server has; nil for nothing
	storedParts int                // its number of parts
	base        string             // its SHA-256 when the task began; empty for nothing
	local       *transcriptVersion // what the turn follows here; it may have more than stored
	restored    bool               // it was fetched for this task
	preamble    string             // put before the prompt: of a new session, a summary of earlier tasks
	sessionID   string
	lastMessage string // the id of claude's last message
	transcript  *bloom.TranscriptUpdate

	attached []string // where in the working folder the task's attachments are

	// The context's working folder; see workspaces.go.
	inode           uint64 // its number before the task, 0 if it did not exist
	snapshot        string // the server's version when the task began, its SHA-256
	ahead           bool   // it had files then that the server did not have
	workspaceUpdate *bloom.WorkspaceUpdate

	// Waiting for people; see asking.go.
	parent      context.Context
	limit       *timeLimit
	suspendedAt *bloom.Approval // the request at which the run has stopped
	suspendedOn *string         // the SHA-256 of the context's transcript, if the stored one is the suspended task's own
	goesOn      bool            // claude goes on with the call that was asked about

	meterMu sync.Mutex
	meter   meter
}

func (t *taskRun) do(parent context.Context) verdict {
	timeout := time.Duration(max(t.task.Policy.TimeoutSec, 0)) * time.Second
	if timeout == 0 {
		timeout = bloom.DefaultTimeoutSec * time.Second
	}
	if earlier := t.task.Suspension(); earlier != nil {
		timeout = max(time.Second, timeout-time.Duration(earlier.Metrics.DurationMS)*time.Millisecond)
	}
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	t.parent, t.limit = parent, newTimeLimit(timeout, func() { cancel(errTimeout) })
	defer t.limit.timer.Stop()
	path, err := Locate(t.config.Path)
	if err != nil {
		t.config.Log.Error("claude is missing", "error", err)
		return notStarted(err)
	}
	if err := t.config.checkMCP(); err != nil {
		t.config.Log.Error("the MCP configuration cannot be read", "error", err)
		v := failed(bloom.ClassInternal, "the worker cannot read its MCP configuration")
		v.retryable = true
		return v
	}
	t.chooseWorkdir()
	var release func()
	if t.exclusive, release, err = t.runner.sessions.acquire(ctx, t.task.ContextID); err != nil {
		return verdictOf(outcome{stopped: err})
	}
	defer release()
	if err := t.awaitOutcome(ctx); err != nil {
		v := t.notReady(parent, "the outcome of the context's last task is not delivered yet", err)
		if parent.Err() == nil { // not this task's fault: it costs no attempt
			v.release, v.notBefore = true, timing.Millis(t.config.Clock.Now().Add(outcomePace))
		}
		return v
	}
	t.inode = inode(t.workdir)
	if err := t.syncWorkspace(ctx); err != nil {
		return t.notReady(ctx, "the context's working folder cannot be restored", err)
	}
	if err := os.MkdirAll(t.workdir, 0o755); err != nil {
		return t.notReady(ctx, "the worker cannot use its working folder", err)
	}
	if err := t.setInheritedAside(); err != nil {
		return t.notReady(ctx, "the worker cannot use its working folder", err)
	}
	if v, ok := t.placeAttachments(ctx); !ok {
		return v
	}
	session, resumes, err := t.open(ctx, path)
	if err != nil {
		return t.notReady(ctx, "the context's transcript cannot be fetched now", err)
	}
	prompt := ""
	if !t.goesOn {
		prompt = t.preamble + t.prompt(ctx)
	}
	out := session.turn(ctx, prompt)
	if resumes && (out.noConversation() || t.restored && out.refusedSession()) && ctx.Err() == nil {
		t.emit.warn("session_gone", "claude cannot resume this context's session; starting a new one")
		if prompt = strings.TrimPrefix(prompt, t.preamble); t.goesOn {
			t.goesOn, prompt = false, t.prompt(ctx)
		}
		t.preamble = ""
		if t.config.Transcripts != nil && t.exclusive {
			t.stored, t.storedParts, t.local = nil, 0, nil
			t.loadEarlier(ctx)
			prompt = t.preamble + prompt
		}
		if err := t.runner.sessions.forget(t.task.ContextID); err != nil {
			t.config.Log.Error("the session of a context could not be removed", "context_id", t.task.ContextID, "error", err)
		}
		session.restart()
		out = session.turn(ctx, prompt)
	}
	v := t.conclude(out)
	if v.suspend != nil {
		return v
	}
	if v.ok && t.task.DesiredFormat == bloom.FormatJSON {
		if v = t.asJSON(ctx, session, v); v.suspend != nil {
			return v
		}
	}
	keeping, stop := t.keeping(parent)
	defer stop()
	t.transcript = t.saveTranscript(keeping, v)
	session.close(v.ok && keeping.Err() == nil)
	t.uploadFiles(parent, v)
	t.workspaceUpdate = t.saveWorkspace(keeping, v)
	t.runner.agent.Store(t.task.AgentSlug)
	t.runner.Prepare()
	return v
}

// worked reports whether the model has answered in this run.
func (t *taskRun) worked() bool {
	t.meterMu.Lock()
	defer t.meterMu.Unlock()
	return t.meter.total() != usage{}
}

// outcomePace is how long a task waits before it asks again for the outcome of its
// context's last task.
const outcomePace = time.Minute

// notReady returns the verdict on a run whose context is not ready for it.
func (t *taskRun) notReady(ctx context.Context, message string, err error) verdict {
	if ctx.Err() != nil {
		return verdictOf(outcome{stopped: context.Cause(ctx)})
	}
	t.config.Log.Error(message, "context_id", t.task.ContextID, "error", err)
	v := failed(bloom.ClassInternal, message)
	v.retryable = true
	return v
}

// conclude returns a turn's verdict, and emits warnings about it.
func (t *taskRun) conclude(out outcome) verdict {
	if out.startErr != nil {
		t.config.Log.Error("claude could not be started", "error", out.startErr)
	}
	if out.superErr != nil {
		t.config.Log.Warn("claude could not be supervised", "error", out.superErr)
	}
	if out.exit.LeftBehind > 0 {
		t.emit.leftBehind(out.exit.LeftBehind)
	}
	if len(out.background) > 0 || out.unwatched {
		t.emit.warn("background_work", "work that claude had started in the background was still running at the end and was stopped")
	}
	if errors.Is(out.stopped, errSuspended) {
		return t.suspended()
	}
	t.warnOfDenials(out)
	v := verdictOf(out)
	if out.earlier != "" && strings.HasPrefix(v.output, out.earlier) {
		t.emit.warn("answer_in_parts", "the answer was cut off by the maximum output or a broken stream, and continued; the output joins its parts, and may repeat or lack something where they meet")
	}
	return v
}

// warnOfDenials warns about each denied tool that the stream did not report, and when every
// tool was denied: the answer may read like a success all the same.
func (t *taskRun) warnOfDenials(out outcome) {
	if out.result == nil || len(out.result.Denials) == 0 {
		return
	}
	for _, denial := range out.result.Denials {
		if !slices.Contains(out.denied, denial.Tool) {
			out.denied = append(out.denied, denial.Tool)
			t.emit.denied(denial.Tool)
		}
	}
	if len(out.result.Denials) >= out.toolUses {
		t.emit.warn("nothing_permitted", "every tool that claude tried to use was denied; whatever the answer says, nothing was done with tools")
	}
}

// asJSON checks that a successful answer is JSON, and asks claude once more if it is not.
func (t *taskRun) asJSON(ctx context.Context, session session, v verdict) verdict {
	output, problem := jsonOutput(v.output)
	if problem == "" {
		v.output = output
		return v
	}
	t.emit.warn("output_repair", "the answer is not valid JSON; claude is asked once more")
	again := t.conclude(session.turn(ctx, repairPrompt(problem)))
	if !again.ok {
		return again
	}
	if output, problem = jsonOutput(again.output); problem == "" {
		again.output = output
		return again
	}
	invalid := failed(bloom.ClassOutputInvalid, "the answer is not valid JSON, also when asked again"+quote(problem))
	invalid.output = again.output
	return invalid
}

// setInheritedAside does so, and says it in the events.
func (t *taskRun) setInheritedAside() error {
	aside, err := t.config.setInheritedAside()
	if names := strings.Join(aside, ", "); names != "" {
		t.emit.warn("inherited_files", "a task had left "+names+" where claude would read it for every context; it was set aside")
	}
	return err
}

func (t *taskRun) chooseWorkdir() {
	t.workdir = t.config.Workdir
	if t.config.WorkdirPerContext || t.task.Policy.Workspace == bloom.WorkspaceContext {
		t.workdir = t.config.workspaceOf(t.task.ContextID)
	}
}

// prompt returns the task's prompt, preceded by its hints and followed by its attachments.
func (t *taskRun) prompt(ctx context.Context) string {
	files, skipped := gatherHints(ctx, t.workdir, t.task.ContextHints, t.config.HintBytes)
	for _, skip := range skipped {
		t.emit.send(EventHintMissing, data{"hint": storable.Cut(skip.hint, 1024), "reason": skip.reason})
	}
	if len(files) > 0 {
		names := make([]string, len(files))
		for i, file := range files {
			names[i] = file.name
		}
		t.emit.send(EventHints, data{"files": names})
	}
	return guardPrompt(withAttachments(withHints(t.task.Prompt, files), t.attached), t.workdir)
}
