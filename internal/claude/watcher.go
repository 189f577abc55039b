package claude

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// watcher handles the output of one turn: it collects the evidence, counts tokens, emits
// events and stops a turn that cannot succeed. Its methods are called from two goroutines:
// stderrLine from the one that copies stderr, the others from the one that copies stdout.
type watcher struct {
	session  *coldSession
	stop     context.CancelCauseFunc
	activity chan struct{}
	resulted chan struct{} // closed at the last result
	process  string        // cold, new, spare or living; shown in the session event
	ended    bool          // resulted is closed
	stopping bool          // the worker stops claude, which then also ends its background work
	asks     *asking       // answers what claude asks; nil if it does not ask
	asking   bool          // a person is being asked
	rejected bool          // nothing of this process counts, so that another can run the turn

	mu         sync.Mutex
	last       time.Time // when claude printed its last line
	seen       outcome
	stderrTail tail
	unreadable int
	answer     continuedAnswer
	forbidden  map[string]string // calls of tools that no task may use: names by id
}

func (w *watcher) alive() {
	w.note(func(*outcome) { w.last = time.Now() })
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
		"text": fmt.Sprintf("a line of %d bytes was skipped because it is longer than the worker's limit", size)})
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
	if w.rejected {
		return
	}
	m, ok := parse(line)
	if ok && w.asks != nil && w.asks.line(m, line) {
		return
	}
	if !ok {
		w.noise(line)
		return
	}
	w.count(m)
	w.answer.observe(m)
	w.seen.earlier = w.answer.earlier
	switch m.Type {
	case "system":
		w.system(m)
	case "stream_event":
		w.seen.worked = true
	case "assistant", "user":
		// Not "user" alone: claude prints that it was interrupted.
		w.seen.worked = w.seen.worked || m.Type == "assistant" && !m.Message.synthetic()
		w.noteTools(m)
		if w.session.onMessage != nil && m.Type == "assistant" && m.Parent == "" {
			w.session.onMessage(m.UUID)
		}
		w.session.emit.message(m)
	case "rate_limit_event":
		w.rateLimited(m)
	case "result":
		w.result(m)
	}
}

// noise handles a line that is not JSON. It emits the first few of a turn.
func (w *watcher) noise(line []byte) {
	w.unreadable++
	if w.unreadable <= 20 {
		w.session.emit.text(EventWarning, "text", string(line), data{"code": "unreadable_line"})
	}
}

// count counts the line's tokens, and stops the turn if the budget is exceeded.
func (w *watcher) count(m message) {
	s := w.session
	s.meterMu.Lock()
	before := s.meter.total()
	s.meter.observe(m)
	after, cost := s.meter.total(), s.meter.costSoFar()
	s.meterMu.Unlock()
	if after == before {
		return
	}
	if m.Type != "result" {
		s.emit.send(EventUsage, data{
			"input_tokens": after.Input, "output_tokens": after.Output,
			"cache_creation_tokens": after.CacheCreation, "cache_read_tokens": after.CacheRead,
			"tokens_used": after.budget(), "cost_usd": cost,
		})
	}
	if s.budget > 0 && after.budget() > s.budget {
		w.stop(errBudget)
	}
}

func (w *watcher) system(m message) {
	switch m.Subtype {
	case "init":
		if offered := w.session.tools.offered(m.Tools); len(offered) > 0 {
			w.rejected = true
			w.session.emit.warn("tools_denied", "claude offers tools that this worker does not allow: "+strings.Join(offered, ", "))
			w.stop(fmt.Errorf("%w: %s", errToolOffered, strings.Join(offered, ", ")))
			return
		}
		w.mu.Lock()
		first := w.seen.sessionID == ""
		w.seen.sessionID = cmp.Or(m.SessionID, w.seen.sessionID)
		if !w.ended && !w.stopping {
			w.seen.result = nil // another turn follows
		}
		w.mu.Unlock()
		if !first || m.SessionID == "" {
			return
		}
		w.session.onSession(m.SessionID)
		w.session.emit.send(EventSession, data{
			"session_id": m.SessionID, "resumed": w.session.resume != "", "forked": w.session.fork,
			"model": m.Model, "claude_version": m.Version, "permission_mode": m.PermissionMode, "tools": m.Tools, "process": w.process, "workdir": w.session.workdir,
		})
	case "api_retry":
		w.apiRetry(m)
	case "background_tasks_changed":
		w.note(func(o *outcome) {
			if !w.stopping {
				o.background, o.unwatched = slices.Clone(m.Tasks), false
			}
		})
	case "task_notification":
		w.note(func(o *outcome) { o.told = o.told || !w.stopping })
	case "status": // a request to the model, which has all notifications until now
		w.note(func(o *outcome) { o.told = false })
	case "informational":
		w.note(func(o *outcome) { o.blocked = o.blocked || m.Prevented })
	case "permission_denied":
		w.note(func(o *outcome) { o.denied = append(o.denied, m.ToolName) })
		w.session.emit.denied(m.ToolName)
	}
}

// apiRetry reports that claude retries a request, and stops the turn if a retry cannot
// succeed.
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
		w.stop(errNotRetryable)
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

// resetMillis returns when the limit is reset, in Unix milliseconds; 0 if unknown.
func (r *rateLimit) resetMillis() int64 {
	switch {
	case r == nil || r.ResetsAt <= 0:
		return 0
	case r.ResetsAt > 1e11: // already milliseconds
		return r.ResetsAt
	}
	return r.ResetsAt * 1000
}

// result keeps the last result. While background work is running, or the model is still to be
// told of its end, another one follows. What claude says of being stopped does not replace an answer.
func (w *watcher) result(m message) {
	w.note(func(o *outcome) {
		if !w.stopping || o.result == nil {
			o.result = &m
		}
	})
	w.alive()
	if isSuccess(&m) && (len(w.seen.background) > 0 || w.seen.told || m.QueuedTurns > 0) || w.ended {
		return
	}
	w.ended = true
	close(w.resulted)
}

// patience returns how much longer claude may print nothing.
func (w *watcher) patience() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	c, silent, tasks := w.session.config, time.Since(w.last), w.seen.background
	switch {
	case w.asking:
		return c.Silence
	case w.seen.result != nil && w.seen.told && len(tasks) == 0: // another turn begins at once, if at all
		return c.AfterResult - silent
	case w.seen.result == nil || w.seen.told || len(tasks) == 0 || slices.ContainsFunc(tasks, func(b backgroundTask) bool { return !b.endless() }):
		return c.Silence - silent
	}
	printed := lastPrinted(filepath.Join(c.claudeFolders(w.session.workdir)[1], w.seen.sessionID, "tasks"), tasks)
	return min(c.Silence-silent, c.Background-min(silent, time.Since(printed)))
}

// lastPrinted returns when one of the tasks last printed something. claude writes their output to
// the folder.
func lastPrinted(dir string, tasks []backgroundTask) (at time.Time) {
	for _, b := range tasks {
		if info, err := os.Lstat(filepath.Join(dir, filepath.Base(b.ID)+".output")); err == nil && info.ModTime().After(at) {
			at = info.ModTime()
		}
	}
	return at
}

func (w *watcher) note(change func(*outcome)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change(&w.seen)
}

// noteTools counts the tools that claude uses, and notes its last text. It stops a turn in which
// a tool did what no task may do.
func (w *watcher) noteTools(m message) {
	for _, b := range m.Message.blocks() {
		if b.Type == "text" && m.Type == "assistant" && m.Parent == "" && !m.Message.synthetic() {
			w.seen.lastText = w.seen.earlier + b.Text
		}
		if name := w.forbidden[b.ToolUseID]; b.Type == "tool_result" && name != "" && !b.IsError {
			w.stop(fmt.Errorf("%w: %s", errToolUsed, name))
		}
		if b.Type != "tool_use" {
			continue
		}
		if w.session.tools.denied(b.Name) {
			w.forbidden[b.ID] = b.Name
		}
		w.mu.Lock()
		w.seen.toolUses++
		w.mu.Unlock()
		var input struct {
			Background bool `json:"run_in_background"`
		}
		if json.Unmarshal(b.Input, &input) == nil && input.Background {
			w.seen.unwatched = true // until claude reports it
		}
	}
}
