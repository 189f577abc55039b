package claude

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/bloom-runtime/bloom"
)

// Isolation returns the settings that a folder does not override.
func (c Config) Isolation() string { return c.isolation() }

// ReadStream feeds output to the stream's reader in pieces of the given size
// and returns the longest line it handed over and how many bytes it kept.
func ReadStream(output []byte, piece, limit int) (longest, lines int) {
	m := &meter{}
	s := &coldSession{tools: &toolPolicy{config: Config{Log: slog.New(slog.DiscardHandler)}, unknown: map[string]bool{}}, meter: m, meterMu: &sync.Mutex{}, emit: &emitter{emit: func(string, any) {}}, onSession: func(string) {}}
	w := &watcher{session: s, stop: func(error) {}, activity: make(chan struct{}, 1), resulted: make(chan struct{}), forbidden: map[string]string{}}
	out := &lineWriter{max: limit, tooLong: w.tooLong, line: func(line []byte) {
		longest, lines = max(longest, len(line)), lines+1
		w.line(line)
	}}
	for len(output) > 0 {
		n := min(max(piece, 1), len(output))
		_, _ = out.Write(output[:n]) // never fails
		output = output[n:]
	}
	out.flush()
	verdictOf(w.seen)
	m.metrics(0)
	return longest, lines
}

// Meter counts lines of claude's output, and returns how many messages it remembers and the tokens.
func Meter(lines []string) (remembered int, tokens int64) {
	m := &meter{}
	for _, line := range lines {
		parsed, _ := parse([]byte(line))
		m.observe(parsed)
	}
	return len(m.messages) + len(m.older), m.total().budget()
}

// AwaitLine is awaitLine.
var AwaitLine = awaitLine

// GatherHints is gatherHints with plain results.
func GatherHints(ctx context.Context, workdir string, hints []string, limit int) (names []string, total int, skipped []string) {
	files, left := gatherHints(ctx, workdir, hints, limit)
	for _, file := range files {
		names = append(names, file.name)
		total += len(file.text)
	}
	for _, skip := range left {
		skipped = append(skipped, skip.hint)
	}
	return names, total, skipped
}

// Exported for tests.
var (
	MatchSegments = matchSegments
	JSONOutput    = jsonOutput
	GuardPrompt   = guardPrompt
)

// UploadFiles uploads what a task's globs match, as at the end of its run.
func UploadFiles(ctx context.Context, c Config, task bloom.Task, emit func(typ string, data any)) {
	t := &taskRun{config: c.withDefaults(), task: task, emit: &emitter{emit: emit}, workdir: c.Workdir}
	t.uploadFiles(ctx, verdict{ok: true})
}

// LimitWarm changes the bounds of what a runner keeps alive; 0 and nil leave one as it is.
func LimitWarm(r *Runner, idle time.Duration, memory int64, free func() int64) {
	l := &r.pool.limits
	l.idle, l.memory, l.watch = cmp.Or(idle, l.idle), cmp.Or(memory, l.memory), 20*time.Millisecond
	if free != nil {
		l.free = free
	}
}

// LimitGrowth changes by how many bytes a process may grow, and returns what it was.
func LimitGrowth(r *Runner, growth int64) (was int64) {
	was, r.pool.limits.growth = r.pool.limits.growth, growth
	return was
}

var help, version fileCache

// ShareAnswers gives a runner its claude's output of --help and --version, which is obtained once for all
// runners.
func ShareAnswers(ctx context.Context, r *Runner) error {
	for option, p := range map[string]struct{ shared, own *fileCache }{"--help": {&help, &r.help}, "--version": {&version, &r.versions}} {
		if _, err := p.shared.get(ctx, r.config.Path, func() (string, error) {
			said, _, err := runClaude(ctx, r.config, r.config.Path, option)
			return said, err
		}); err != nil {
			return err
		}
		p.own.key, p.own.answer = p.shared.key, p.shared.answer
	}
	return nil
}

// PrepareFor is Prepare after a task of the agent.
func PrepareFor(r *Runner, agent string) {
	r.agent.Store(agent)
	r.Prepare()
}

// DeniedTools returns the tools that no task may use, and KnownTool whether a tool is classified.
func DeniedTools() (denied []string) {
	for name, rule := range toolRules {
		if rule.denied {
			denied = append(denied, name)
		}
	}
	return denied
}

func KnownTool(name string) bool { _, known := toolRules[name]; return known }

// Isolation returns the settings that every process gets.
func Isolation(c Config) string { return c.isolation() }

// Reuses returns how many of the turns, given by their contexts, find the process of their
// context, if room processes are kept.
func Reuses(turns []string, room int) (n int) {
	var e eviction
	var idle []string
	for _, contextID := range turns {
		if i := slices.Index(idle, contextID); i >= 0 {
			n++
			idle = slices.Delete(idle, i, i+1)
		}
		idle = append(idle, contextID)
		e.used(contextID, room)
		if len(idle) > room {
			i := e.victim(len(idle))
			idle = slices.Delete(idle, i, i+1)
		}
	}
	return n
}
