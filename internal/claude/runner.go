package claude

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bloom-runtime/bloom"
)

// Runner runs tasks with the claude command line. It may run many at once.
type Runner struct {
	config   Config
	sessions *sessions
	versions perFile // what --version answered
	help     perFile // what --help answered
	pool     *pool
	removing chan struct{} // holds a token while the folder of a forgotten context is removed
}

// New makes a runner. It creates the working and the state folder; that claude
// is there is only asked when a task runs.
func New(config Config) (*Runner, error) {
	config = config.withDefaults()
	if err := config.Validate(); err != nil {
		return nil, err
	}
	config.MCPConfig = slices.Clone(config.MCPConfig)
	var err error
	for i, file := range config.MCPConfig {
		if strings.HasPrefix(strings.TrimSpace(file), "{") {
			continue // the configuration itself, which claude takes as well
		}
		// claude would look for it from the working folder, which is the tasks'.
		if config.MCPConfig[i], err = filepath.Abs(file); err != nil {
			return nil, err
		}
	}
	if config.Workdir, err = filepath.Abs(config.Workdir); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(config.Workdir, 0o755); err != nil {
		return nil, fmt.Errorf("working folder: %w", err)
	}
	// claude names the folder without symbolic links, and so do we.
	if config.Workdir, err = filepath.EvalSymlinks(config.Workdir); err != nil {
		return nil, fmt.Errorf("working folder: %w", err)
	}
	sessions, err := openSessions(config.StateDir)
	if err != nil {
		return nil, err
	}
	for _, warning := range config.Warnings() {
		config.Log.Warn(warning)
	}
	return &Runner{config: config, sessions: sessions, versions: perFile{hold: unusableFor}, pool: newPool(config.Warm, config.Log), removing: make(chan struct{}, 1)}, nil
}

// Close ends the processes that are kept for later tasks. Tasks that still run
// keep theirs until they end.
func (r *Runner) Close() { r.pool.close() }

// Run runs one task to its end and says what to report. It calls emit for every
// event, one at a time; the data marshals to JSON. When ctx ends it stops the
// work, and the cause of ctx (bloom.ErrCancelled, ErrLeaseGone, ErrDraining)
// says what becomes of the task. Run returns only when no process of the run is
// left. The LeaseID of what it returns is left for
// the caller to fill.
func (r *Runner) Run(ctx context.Context, task bloom.Task, emit func(typ string, data any)) bloom.Run {
	started := r.config.Clock.Now()
	run := &taskRun{runner: r, config: r.config, task: task, emit: &emitter{emit: emit}}
	v := run.do(ctx)
	run.meterMu.Lock()
	metrics := run.meter.metrics(r.config.Clock.Now().Sub(started).Milliseconds())
	run.meterMu.Unlock()
	metrics.Warnings = run.emit.outcomeWarnings()
	run.emit.send(EventResult, data{"ok": v.ok, "error_class": v.class, "message": v.message, "metrics": metrics})
	if v.release {
		return bloom.Run{
			Completion: v.completion(metrics),
			Release:    &bloom.ReleaseSpec{Reason: clip(v.message, 1024), NotBefore: v.notBefore},
		}
	}
	c := v.completion(metrics)
	c.Transcript, c.Workspace = run.transcript, run.folder
	return bloom.Run{Completion: c}
}

func (v verdict) completion(metrics bloom.Metrics) bloom.Completion {
	c := bloom.Completion{Status: bloom.OutcomeSuccess, Metrics: metrics, ArtifactType: bloom.DefaultArtifactType, ArtifactTags: []string{}}
	output := v.output
	if v.ok || output != "" {
		c.Output = &output
	}
	if !v.ok {
		message := v.message
		c.Status, c.ErrorMessage, c.ErrorClass, c.Retryable = bloom.OutcomeError, &message, v.class, v.retryable
	}
	return c
}

// taskRun is one run of one task.
type taskRun struct {
	runner  *Runner
	config  Config
	task    bloom.Task
	emit    *emitter
	workdir string
	first   bool // nobody else runs in the context

	// Of the context's transcript; see transcripts.go.
	known       *mark  // what the server has
	parts       int    // in so many parts
	restored    bool   // it was fetched for this task
	recalled    string // what goes before the prompt of a new session
	sessionID   string
	lastMessage string // the id of claude's last message
	transcript  *bloom.TranscriptUpdate
	snapshot    string // the SHA-256 of the working folder that the task began with
	folder      *bloom.WorkspaceUpdate

	meterMu sync.Mutex
	meter   meter
}

func (t *taskRun) do(parent context.Context) verdict {
	timeout := time.Duration(max(t.task.Policy.TimeoutSec, 0)) * time.Second
	if timeout == 0 {
		timeout = bloom.DefaultTimeoutSec * time.Second
	}
	ctx, cancel := context.WithTimeoutCause(parent, timeout, errTimeout)
	defer cancel()
	path, err := Locate(t.config.Path)
	if err != nil {
		t.config.Log.Error("claude is missing", "err", err)
		return notStarted(err)
	}
	if err := t.config.checkMCP(); err != nil {
		t.config.Log.Error("MCP configuration", "error", err)
		return failed(bloom.ClassInternal, "the worker cannot read its MCP configuration")
	}
	if err := t.chooseWorkdir(); err != nil {
		t.config.Log.Error("working folder", "err", err)
		v := failed(bloom.ClassInternal, "the worker cannot use its working folder")
		v.retryable = true
		return v
	}
	var release func()
	if t.first, release, err = t.runner.sessions.acquire(ctx, t.task.ContextID); err != nil {
		return judge(outcome{stopped: err})
	}
	defer release()
	if err := t.settleWorkspace(ctx); err != nil {
		if ctx.Err() != nil {
			return judge(outcome{stopped: context.Cause(ctx)})
		}
		t.config.Log.Error("the working folder of a context cannot be restored", "context_id", t.task.ContextID, "error", err)
		v := failed(bloom.ClassInternal, "the context's working folder cannot be restored")
		v.retryable = true
		return v
	}

	session, resumes, err := t.open(ctx, path)
	if err != nil {
		if ctx.Err() != nil {
			return judge(outcome{stopped: context.Cause(ctx)})
		}
		t.config.Log.Error("the transcript of a context cannot be fetched", "context_id", t.task.ContextID, "error", err)
		v := failed(bloom.ClassInternal, "the context's transcript cannot be fetched now")
		v.retryable = true
		return v
	}
	prompt := t.recalled + t.prompt(ctx)
	out := session.turn(ctx, prompt)
	if resumes && (out.noConversation() || t.restored && out.refusedSession()) && ctx.Err() == nil {
		t.emit.warn("session_gone", "claude does not take up this context's session; a new one is begun")
		if t.config.Transcripts != nil && t.first {
			t.known, t.parts = nil, 0
			t.recall(ctx)
			prompt = t.recalled + prompt
		}
		if err := t.runner.sessions.forget(t.task.ContextID); err != nil {
			t.config.Log.Error("forget session", "err", err)
		}
		session.restart()
		out = session.turn(ctx, prompt)
	}
	v := t.conclude(out)
	if v.ok && t.task.DesiredFormat == bloom.FormatJSON {
		v = t.asJSON(ctx, session, v)
	}
	t.transcript = t.keepTranscript(parent, v)
	session.close(v.ok)
	t.uploadFiles(parent, v)
	t.folder = t.keepWorkspace(parent, v)
	t.runner.Prepare()
	return v
}

// Prepare starts the spare process that serves whoever comes first, with the
// options of a task that asks for nothing special, when the configuration keeps
// processes alive. It returns at once. A runner that was prepared or has run tasks
// has to be closed.
func (r *Runner) Prepare() {
	if r.config.WorkdirPerContext {
		return // a process cannot change its folder
	}
	plain := &coldSession{config: r.config, workdir: r.config.Workdir}
	r.pool.prepare(func(ctx context.Context) (_ string, err error) {
		if plain.path, err = r.usable(ctx); err != nil {
			return "", err
		}
		plain.args = r.baseArgs(ctx, plain.path)
		return plain.fixed(ctx)
	}, func(key string) (*living, error) {
		return startLiving(r.config, plain.path, plain.turnArgs(), plain.workdir, key)
	})
}

// warm lets the session use living processes where that is possible: not for a
// copy, and not when it cannot be told what claude reads at its start.
func (t *taskRun) warm(ctx context.Context, s *coldSession) session {
	if t.runner.pool.max == 0 || !t.first || s.fork {
		return s
	}
	key, err := s.fixed(ctx)
	if err != nil {
		t.config.Log.Debug("not keeping claude alive", "error", err)
		return s
	}
	return &warmSession{coldSession: s, pool: t.runner.pool, contextID: t.task.ContextID, key: key}
}

// conclude judges a turn and says what else there is to say of it.
func (t *taskRun) conclude(out outcome) verdict {
	if out.startErr != nil {
		t.config.Log.Error("start claude", "err", out.startErr)
	}
	if out.superErr != nil {
		t.config.Log.Warn("supervise claude", "err", out.superErr)
	}
	if out.exit.LeftBehind > 0 {
		t.emit.leftBehind(out.exit.LeftBehind)
	}
	t.warnOfDenials(out)
	return judge(out)
}

// warnOfDenials says which tools were denied, those that the stream did not report, and
// when nothing else was used that nothing was done: the answer reads like a success all
// the same.
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

// asJSON checks a success that was to be JSON, and asks once more when it is not.
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

func (t *taskRun) chooseWorkdir() error {
	t.workdir = t.config.Workdir
	if t.config.WorkdirPerContext || t.task.Policy.Workspace == bloom.WorkspaceContext {
		t.workdir = t.config.workspaceOf(t.task.ContextID)
	}
	return os.MkdirAll(t.workdir, 0o755)
}

// prompt is the task's prompt behind its hints.
func (t *taskRun) prompt(ctx context.Context) string {
	files, missed := gatherHints(ctx, t.workdir, t.task.ContextHints, t.config.HintBytes)
	for _, miss := range missed {
		t.emit.send(EventHintMissing, data{"hint": clip(miss.hint, 1024), "reason": miss.reason})
	}
	if len(files) > 0 {
		names := make([]string, len(files))
		for i, file := range files {
			names[i] = file.name
		}
		t.emit.send(EventHints, data{"files": names})
	}
	return guardPrompt(withHints(t.task.Prompt, files), t.workdir)
}

// open decides which session the task goes on with and how claude is called.
// resumes reports whether it is an older one. It fails when the server cannot be asked
// for the session.
func (t *taskRun) open(ctx context.Context, path string) (_ session, resumes bool, err error) {
	s := &coldSession{
		config: t.config, path: path, workdir: t.workdir, budget: t.task.Policy.Budget,
		meter: &t.meter, meterMu: &t.meterMu, emit: t.emit,
	}
	saved, err := t.runner.sessions.load(t.task.ContextID)
	if err != nil {
		t.config.Log.Error("load session", "err", err)
		t.emit.warn("session_unreadable", "what was remembered of this context cannot be read; a new session is begun")
	}
	if t.config.Transcripts != nil && t.first {
		if saved, err = t.settle(ctx, saved); err != nil {
			return nil, false, err
		}
	}
	switch {
	case saved.SessionID != "" && saved.Workdir != t.workdir:
		t.emit.warn("session_elsewhere", "this context's session was made in another working folder; a new one is begun")
		if t.config.Transcripts != nil && t.first {
			t.recall(ctx)
		}
	case saved.SessionID != "":
		s.resume = saved.SessionID
	case !t.first:
		t.emit.warn("session_parallel", "another task of this context is just beginning; this one has a session of its own")
	}
	if s.resume != "" && !t.first {
		s.fork = true
		t.emit.warn("session_forked", "another task of this context is running; this one goes on with a copy of the session")
	}
	s.onSession = t.remember
	s.onMessage = func(uuid string) { t.lastMessage = uuid }
	s.args = append(t.runner.baseArgs(ctx, path), t.persona(ctx)...)
	return t.warm(ctx, s), s.resume != "", nil
}

// remember keeps the session as soon as claude names it, so that it survives a
// kill. A copy made for a parallel task is not kept: the first one goes on.
func (t *taskRun) remember(id string) {
	if !t.first {
		return
	}
	t.sessionID = id
	if saved, err := t.runner.sessions.load(t.task.ContextID); err == nil && saved.Next != nil && saved.Next.SessionID == id && saved.Workdir == t.workdir {
		return // it is kept, with what is known of its transcript
	}
	err := t.runner.sessions.save(savedSession{
		ContextID: t.task.ContextID, SessionID: id, Workdir: t.workdir, UpdatedAt: bloom.Millis(t.config.Clock.Now()),
		Movable: t.config.Transcripts != nil, Base: t.known, Next: t.known, Pushed: t.known != nil, Parts: t.parts,
	})
	if err != nil {
		t.config.Log.Error("keep session", "err", err)
		t.emit.warn("session_not_kept", "the session could not be kept; the context's next task begins a new one")
	}
}
