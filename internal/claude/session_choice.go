package claude

import (
	"context"

	"github.com/bloom-runtime/bloom/internal/timing"
)

// open chooses the session that the task continues, and the options of claude. resumes
// reports whether the session is an existing one. It fails when the server, which may
// have a newer session, is unavailable.
func (t *taskRun) open(ctx context.Context, path string) (_ session, resumes bool, err error) {
	s := &coldSession{
		config: t.config, path: path, tools: t.runner.tools, workdir: t.workdir, budget: t.task.Policy.Budget,
		meter: &t.meter, meterMu: &t.meterMu, emit: t.emit,
	}
	s.config.project = t.task.AgentSlug
	saved, err := t.runner.sessions.load(t.task.ContextID)
	if err != nil {
		t.config.Log.Error("the session of a context cannot be read", "context_id", t.task.ContextID, "error", err)
		t.emit.warn("session_unreadable", "the worker's record of this context's session cannot be read; starting a new session")
	}
	was := saved
	if t.config.Transcripts != nil && t.exclusive {
		if saved, err = t.syncSession(ctx, saved); err != nil {
			return nil, false, err
		}
		if t.stored != nil {
			t.base = t.stored.SHA256
		}
		if t.suspendedOn != nil { // the stored transcript is the task's own
			t.base = *t.suspendedOn
		}
	}
	if was.SessionID != "" && was.Workdir == t.config.Workdir && t.config.WorkdirPerContext {
		t.emit.warn("workdir_changed", "this context has its own working folder now; the files of its earlier tasks are still in "+was.Workdir)
	}
	switch {
	case saved.SessionID != "" && saved.Workdir != t.workdir:
		t.emit.warn("session_elsewhere", "this context's session belongs to another working folder; starting a new one")
		if t.config.Transcripts != nil && t.exclusive {
			t.loadEarlier(ctx)
		}
	case saved.SessionID != "":
		s.resume = saved.SessionID
	case !t.exclusive:
		t.emit.warn("session_parallel", "another task of this context is starting; this one uses a session of its own")
	}
	if s.resume != "" && !t.exclusive {
		s.fork = true
		t.emit.warn("session_forked", "another task of this context is running; this one uses a copy of the session")
	}
	s.onSession = t.saveSession
	s.onMessage = func(uuid string) { t.lastMessage = uuid }
	s.args = append(t.runner.baseArgs(ctx, path), t.agentArgs(ctx)...)
	if earlier := t.task.Suspension(); earlier != nil {
		t.goesOn = t.suspendedOn != nil && t.stored != nil && s.resume == t.stored.SessionID
		if !t.goesOn {
			t.emit.warn("suspension_lost", "the conversation of this task, which waited for a person, cannot be continued; it begins again")
		}
		if s.budget > 0 {
			s.budget = max(1, s.budget-earlier.Metrics.Tokens())
		}
	}
	if t.mayAsk() || t.goesOn {
		s.asks, s.args = t, t.askArgs(s.args)
		if t.task.Policy.Questions {
			s.tools = s.tools.withQuestions()
		}
		return s, s.resume != "", nil
	}
	return t.withWarmProcess(ctx, s), s.resume != "", nil
}

// saveSession saves the session id as soon as claude prints it, so that it survives a
// kill. It does not save a copy made for a parallel task.
func (t *taskRun) saveSession(id string) {
	if err := t.runner.sessions.enlist(t.task.ContextID, id); err != nil {
		t.config.Log.Error("the list of a context's sessions could not be written; forgetting the context may leave files of claude", "context_id", t.task.ContextID, "error", err)
	}
	if !t.exclusive {
		return
	}
	t.sessionID = id
	if saved, err := t.runner.sessions.load(t.task.ContextID); err == nil && saved.Next != nil && saved.Next.SessionID == id && saved.Workdir == t.workdir {
		return // already saved, with the versions of its transcript
	}
	err := t.runner.sessions.save(savedSession{
		ContextID: t.task.ContextID, SessionID: id, Workdir: t.workdir, UpdatedAt: timing.Millis(t.config.Clock.Now()),
		Movable: t.config.Transcripts != nil, Base: t.stored, Next: t.local, Parts: t.storedParts,
	})
	if err != nil {
		t.config.Log.Error("the session of a context could not be saved", "context_id", t.task.ContextID, "error", err)
		t.emit.warn("session_not_kept", "the session could not be saved; the context's next task starts a new one")
	}
}

// withWarmProcess returns a session that uses warm processes, if that is possible. It is
// not for a copy of a session, nor when the files that claude reads at its start cannot
// be compared.
func (t *taskRun) withWarmProcess(ctx context.Context, s *coldSession) session {
	if t.runner.pool.max == 0 || !t.exclusive || s.fork {
		return s
	}
	key, err := s.startKey(ctx)
	if err != nil {
		t.config.Log.Debug("not keeping claude alive", "error", err)
		return s
	}
	return &warmSession{coldSession: s, pool: t.runner.pool, contextID: t.task.ContextID, key: key, spareKey: s.spareKey(ctx, key)}
}
