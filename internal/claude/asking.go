package claude

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/retry"
	"github.com/bloom-runtime/bloom/internal/workspace"
)

// Approvals asks people about calls.
type Approvals interface {
	// Ask stores the request under the task's lease, or returns the one that is stored, and waits for
	// its decision as long as q says. It fails with ErrUnavailable if the server is unavailable.
	Ask(ctx context.Context, task bloom.Task, q bloom.Ask) (bloom.Approval, error)
}

// Defaults of asking.
const (
	DefaultApprovalGrace = 2 * time.Minute
	// askWait is how long one request to the server waits.
	askWait = 20 * time.Second
	// resumeWait is how long claude may take to go on with a call after it has started.
	resumeWait = 30 * time.Second
)

// askTool is the tool with which claude asks a person.
const askTool = "AskUserQuestion"

var (
	errSuspended  = errors.New("the run waits for a person")
	errNotResumed = errors.New("claude does not go on with the call that a person has decided about")
)

// mayAsk reports whether the run may ask people. It then has a process of its own, which asks the
// worker, on its standard output, for what its permissions do not allow.
func (t *taskRun) mayAsk() bool {
	p := t.task.Policy
	return t.config.Approvals != nil && (len(t.askRules()) > 0 || p.Approval == bloom.PolicyAsk || p.Questions)
}

// askRules returns the rules about which people are asked: the operator's and the task's.
func (t *taskRun) askRules() []string {
	return slices.Compact(slices.Sorted(slices.Values(slices.Concat(t.config.AskRules, t.task.Policy.Ask))))
}

// askArgs changes claude's options so that it asks.
func (t *taskRun) askArgs(args []string) []string {
	var now []string
	for _, arg := range args {
		switch {
		case strings.HasPrefix(arg, "--permission-prompts="):
			continue
		case strings.HasPrefix(arg, "--settings="):
			arg = "--settings=" + t.config.isolation(t.askRules()...)
		}
		now = append(now, arg)
	}
	return append(now, "--permission-prompt-tool=stdio", "--input-format=stream-json")
}

// withQuestions returns a policy under which claude may ask questions.
func (p *toolPolicy) withQuestions() *toolPolicy {
	p.mu.Lock()
	defer p.mu.Unlock()
	return &toolPolicy{config: p.config, unknown: maps.Clone(p.unknown), questions: true}
}

// asking answers what claude asks during one turn.
type asking struct {
	run    *taskRun
	watch  *watcher
	ctx    context.Context
	stdin  *os.File
	resume *time.Timer // until claude goes on with the call; nil if it gets a prompt

	mu   sync.Mutex
	busy bool // a person is being asked
}

// begin starts to write to claude, and returns its standard input. Without a prompt claude goes on with
// the call that was asked about.
func (t *taskRun) begin(ctx context.Context, w *watcher, prompt string) (*asking, *os.File, error) {
	input, stdin, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	a := &asking{run: t, watch: w, ctx: ctx, stdin: stdin}
	lines := []any{map[string]any{"type": "control_request", "request_id": "initialize", "request": map[string]string{"subtype": "initialize"}}}
	if prompt != "" {
		lines = append(lines, userLine(prompt))
	} else {
		a.resume = time.AfterFunc(time.Hour, func() { w.stop(errNotResumed) })
	}
	go func() {
		for _, line := range lines {
			a.write(line)
		}
	}()
	return a, input, nil
}

// userLine is the line with which a prompt is written to claude.
func userLine(prompt string) map[string]any {
	return map[string]any{"type": "user", "message": map[string]string{"role": "user", "content": prompt}, "parent_tool_use_id": nil, "session_id": ""}
}

// close ends claude's input, at which it ends.
func (a *asking) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.began()
	_ = a.stdin.Close()
}

// began notes that claude goes on with the call.
func (a *asking) began() {
	if a.resume != nil {
		a.resume.Stop()
	}
}

// write writes a line. An error means that claude is ending, which its end shows.
func (a *asking) write(v any) {
	line, err := json.Marshal(v)
	if err == nil {
		a.mu.Lock()
		defer a.mu.Unlock()
		_, _ = a.stdin.Write(append(line, '\n'))
	}
}

// controlRequest is what claude asks.
type controlRequest struct {
	ID      string `json:"request_id"`
	Request struct {
		Subtype    string          `json:"subtype"`
		Tool       string          `json:"tool_name"`
		Input      json.RawMessage `json:"input"`
		ToolUseID  string          `json:"tool_use_id"`
		AgentID    string          `json:"agent_id"`
		RuleSource string          `json:"decision_reason_rule_source"`
		AskRule    struct {
			Source string `json:"source"`
		} `json:"matched_ask_rule"`
	} `json:"request"`
}

// line handles a line that is part of the conversation with the worker, and reports whether it is one.
func (a *asking) line(m message, line []byte) bool {
	switch m.Type {
	case "control_response": // claude has read its settings
		if a.resume != nil {
			a.resume.Reset(resumeWait)
		}
	case "control_request":
		a.began()
		var r controlRequest
		if json.Unmarshal(line, &r) == nil {
			go a.answer(r)
		}
	case "command_lifecycle":
	default:
		a.began()
		return false
	}
	return true
}

func (a *asking) answer(r controlRequest) {
	response := map[string]any{"subtype": "error", "request_id": r.ID, "error": "not supported"}
	if r.Request.Subtype == "can_use_tool" {
		decision := a.decide(r)
		if decision == nil {
			return // the run is being stopped
		}
		response = map[string]any{"subtype": "success", "request_id": r.ID, "response": decision}
	}
	a.write(map[string]any{"type": "control_response", "response": response})
}

func refusal(message string) map[string]any {
	return map[string]any{"behavior": "deny", "message": message}
}

// asks reports whether a person is to be asked about a call: because of a rule, or because the
// permission mode would refuse it and the task asks then.
func (a *asking) asks(r controlRequest) bool {
	const own = "flagSettings" // of --settings
	q, t := r.Request, a.run
	switch {
	case q.Tool == askTool:
		return t.task.Policy.Questions
	case t.task.Policy.Approval == bloom.PolicyAsk, t.resumes(q.ToolUseID):
		return true
	}
	return q.RuleSource == own || q.AskRule.Source == own ||
		slices.ContainsFunc(t.askRules(), func(rule string) bool { return toolName(rule) == q.Tool }) // claude may name another reason first
}

// resumes reports whether the task was suspended at the call.
func (t *taskRun) resumes(toolUseID string) bool {
	s := t.task.Suspension()
	return s != nil && s.ToolUseID == toolUseID
}

// decide returns what claude is told about a call, nil if the run is suspended or stopped meanwhile.
func (a *asking) decide(r controlRequest) map[string]any {
	t, q := a.run, r.Request
	if !a.asks(r) {
		a.watch.note(func(o *outcome) { o.denied = append(o.denied, q.Tool) })
		t.emit.denied(q.Tool)
		return refusal("Permission to use " + q.Tool + " was denied, and nobody can be asked.")
	}
	a.mu.Lock()
	busy := a.busy
	a.busy = true
	a.mu.Unlock()
	if busy {
		return refusal("This call did not run, because another call of this message waits for a person. Make it again if it is still needed.")
	}
	defer func() {
		a.mu.Lock()
		a.busy = false
		a.mu.Unlock()
	}()
	ask := bloom.Ask{LeaseID: t.lease(), Kind: bloom.ApprovalTool, Tool: q.Tool, ToolUseID: q.ToolUseID, Input: q.Input}
	if q.Tool == askTool {
		ask.Kind = bloom.ApprovalQuestion
	}
	t.limit.pause()
	defer t.limit.resume()
	a.watch.note(func(*outcome) { a.watch.asking = true })
	defer a.watch.note(func(*outcome) { a.watch.asking = false })
	is, err := a.await(ask, t.canSuspend() && q.AgentID == "")
	switch {
	case a.ctx.Err() != nil:
		return nil
	case err != nil:
		t.config.Log.Warn("a person could not be asked", "task_id", t.task.ID, "tool", q.Tool, "error", err)
		return refusal("This call did not run: nobody could be asked about it.")
	case is.Status == bloom.ApprovalPending:
		a.suspend(is)
		return nil
	case is.UsedBy != t.lease() && is.UsedBy != "":
		return refusal("This call was decided about and begun in an attempt that was interrupted, so that it may have run or not. It is not run again. Find out whether it has run before you make it again.")
	case is.Status != bloom.ApprovalAllowed:
		return refusal(refusalText(is))
	case ask.Kind == bloom.ApprovalQuestion:
		var answered map[string]any
		if err := json.Unmarshal(q.Input, &answered); err != nil {
			return refusal("The question could not be read.")
		}
		answered["answers"] = is.Answers
		return map[string]any{"behavior": "allow", "updatedInput": answered}
	}
	return map[string]any{"behavior": "allow", "updatedInput": q.Input}
}

func refusalText(a bloom.Approval) string {
	switch {
	case a.Status == bloom.ApprovalExpired:
		return "Nobody decided about this call in time, so that it did not run."
	case a.Status == bloom.ApprovalCancelled:
		return "This call did not run: the request about it is void."
	case a.Message == "":
		return "A person denied this call. It did not run."
	}
	return "A person denied this call. It did not run. They say: " + a.Message
}

// await asks, and waits for the decision: for the grace if the run can be suspended then, else until
// there is one.
func (a *asking) await(ask bloom.Ask, suspendable bool) (is bloom.Approval, err error) {
	deadline := time.Now().Add(a.run.config.ApprovalGrace)
	waits := retry.Policy{First: 100 * time.Millisecond, Max: 5 * time.Second, Jitter: 0.5}.Waits()
	for {
		wait := askWait
		if suspendable {
			wait = max(0, min(wait, time.Until(deadline)))
		}
		ask.WaitMS = int(wait / time.Millisecond)
		now, err := a.run.config.Approvals.Ask(a.ctx, a.run.task, ask)
		switch {
		case errors.Is(err, ErrUnavailable) && retry.Sleep(a.ctx, waits()) == nil:
			continue
		case err != nil:
			return is, err
		}
		if is = now; is.Status != bloom.ApprovalPending || suspendable && time.Until(deadline) <= 0 {
			return is, nil
		}
	}
}

// canSuspend reports whether the run can go on later, on any worker: its conversation is stored.
func (t *taskRun) canSuspend() bool { return t.config.Transcripts != nil && t.exclusive }

// suspend stops claude at the call, once its conversation is on disk.
func (a *asking) suspend(is bloom.Approval) {
	t := a.run
	awaitLine(a.ctx, t.config.sessionFile(t.workdir, t.sessionID), is.ToolUseID)
	t.suspendedAt = &is
	a.watch.stop(errSuspended)
}

// suspended stores the run where it has stopped, and returns its verdict.
func (t *taskRun) suspended() verdict {
	keeping, stop := t.keeping(t.parent)
	defer stop()
	spec, err := t.store(keeping)
	if err != nil {
		if cause := context.Cause(t.parent); t.parent.Err() != nil {
			return verdictOf(outcome{stopped: cause})
		}
		t.config.Log.Error("a run could not be suspended", "task_id", t.task.ID, "error", err)
		v := failed(bloom.ClassInternal, "the run could not be suspended while it waits for a person; it begins again")
		v.release = true
		return v
	}
	return verdict{suspend: spec}
}

// store uploads the conversation up to the call, and the folder.
func (t *taskRun) store(ctx context.Context) (*bloom.SuspendSpec, error) {
	path := t.config.sessionFile(t.workdir, t.sessionID)
	if err := markDeferred(path, t.sessionID, *t.suspendedAt); err != nil {
		return nil, err
	}
	if t.stored != nil && t.task.Suspension() == nil {
		t.storedParts = maxAppendedParts // it is a conversation of its own: upload it as a whole
	}
	uploading, cancel := context.WithTimeout(ctx, transferTimeout)
	defer cancel()
	update, err := t.uploadTranscript(uploading, path, false)
	if err != nil {
		return nil, err
	}
	spec := &bloom.SuspendSpec{LeaseID: t.lease(), ApprovalID: t.suspendedAt.ID, Transcript: *update}
	if t.moving() {
		if spec.Workspace = t.saveWorkspace(ctx, verdict{ok: true}); spec.Workspace == nil && slices.ContainsFunc(t.emit.outcomeWarnings(), func(w bloom.Warning) bool { return w.Code == bloom.NotKept }) {
			return nil, errors.New("the working folder could not be uploaded")
		}
	}
	return spec, nil
}

// markDeferred marks the call at the end of a session's file as one that claude goes on with, as claude
// itself does when a hook defers a call. Calls of the same message that did not begin are not part of
// the conversation any more.
func markDeferred(path, session string, a bloom.Approval) error {
	f, _, err := workspace.OpenRegularPath(path, os.O_RDWR)
	if err != nil {
		return err
	}
	defer f.Close()
	var call map[string]json.RawMessage
	id := []byte(`"` + a.ToolUseID + `"`)
	lines := bufio.NewReaderSize(io.LimitReader(f, bloom.MaxTranscript), 64<<10)
	var size int64
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			break // what was not written completely
		}
		if err != nil {
			return err
		}
		size += int64(len(line))
		if !bytes.Contains(line, id) {
			continue
		}
		var entry struct {
			Type string `json:"type"`
		}
		var is map[string]json.RawMessage
		if json.Unmarshal(line, &entry) == nil && entry.Type == "assistant" && json.Unmarshal(line, &is) == nil {
			call = is
		}
	}
	if call == nil {
		return fmt.Errorf("the session's file does not have the call %q", a.ToolUseID)
	}
	mark := map[string]any{"parentUuid": call["uuid"], "type": "attachment", "uuid": uuid.NewString(), "sessionId": session,
		"attachment": map[string]any{
			"type": "hook_deferred_tool", "toolUseID": a.ToolUseID, "toolName": a.Tool, "toolInput": a.Input,
			"hookName": "PreToolUse:Callback", "hookEvent": "PreToolUse", "permissionMode": "default",
		}}
	for _, name := range []string{"isSidechain", "timestamp", "userType", "entrypoint", "cwd", "version", "gitBranch", "slug"} {
		if value, ok := call[name]; ok {
			mark[name] = value
		}
	}
	line, err := json.Marshal(mark)
	if err != nil {
		return err
	}
	if err := f.Truncate(size); err != nil {
		return err
	}
	if _, err := f.WriteAt(append(line, '\n'), size); err != nil {
		return err
	}
	return f.Sync()
}

// timeLimit ends a run when its time is up. The time in which it waits for a person does not count.
type timeLimit struct {
	mu      sync.Mutex
	timer   *time.Timer
	left    time.Duration
	since   time.Time
	waiting int
	waited  time.Duration
}

func newTimeLimit(limit time.Duration, end func()) *timeLimit {
	return &timeLimit{timer: time.AfterFunc(limit, end), left: limit, since: time.Now()}
}

func (l *timeLimit) pause() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.waiting++; l.waiting == 1 && l.timer.Stop() {
		l.left -= time.Since(l.since)
	}
	l.since = time.Now()
}

func (l *timeLimit) resume() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waited += time.Since(l.since)
	if l.waiting--; l.waiting == 0 {
		l.since = time.Now()
		l.timer.Reset(max(l.left, time.Millisecond))
	}
}

// spent returns how long the run has waited for people.
func (l *timeLimit) spent() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.waited
}
