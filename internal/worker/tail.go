package worker

import (
	"bytes"
	"context"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/timing"
)

// Tail keeps the last lines of a log, which the worker reports to the runtime. It is safe
// for concurrent use.
type Tail struct {
	secrets []string

	mu    sync.Mutex
	lines []bloom.LogLine
	count int // of all lines so far
}

// NewTail makes a Tail that masks the given secrets, and everything that looks like a key
// of the runtime or of the model provider.
func NewTail(secrets ...string) *Tail {
	t := &Tail{}
	for _, s := range secrets {
		if len(s) >= 8 {
			t.secrets = append(t.secrets, s)
		}
	}
	return t
}

var keyLike = regexp.MustCompile(`blm_[a-z2-7]{16}_[a-z2-7]+|sk-ant-[A-Za-z0-9_-]{8,}|(?i:bearer) [A-Za-z0-9._~+/-]{8,}=*`)

// Logger returns a logger that writes to log and to the tail.
func (t *Tail) Logger(log *slog.Logger) *slog.Logger {
	return slog.New(&tailHandler{Handler: log.Handler(), tail: t})
}

func (t *Tail) add(l bloom.LogLine) {
	for _, s := range t.secrets {
		l.Text = strings.ReplaceAll(l.Text, s, "****")
	}
	l.Text = keyLike.ReplaceAllString(l.Text, "****")
	if n := bloom.MaxLogLine; len(l.Text) > n {
		for n > 0 && !utf8.RuneStart(l.Text[n]) {
			n--
		}
		l.Text = strings.Clone(l.Text[:n])
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.count++; len(t.lines) == bloom.MaxLogLines {
		t.lines = append(t.lines[:0], t.lines[1:]...)
	}
	t.lines = append(t.lines, l)
}

// since returns the last lines, nil if there were no more than count, and the number of
// all lines so far.
func (t *Tail) since(count int) ([]bloom.LogLine, int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.count == count {
		return nil, count
	}
	return append([]bloom.LogLine(nil), t.lines...), t.count
}

// tailHandler formats each line with slog.TextHandler, so that values which mask
// themselves in the log are masked here, too.
type tailHandler struct {
	slog.Handler
	tail *Tail
	with []func(slog.Handler) slog.Handler
}

// Handle adds the line to the tail and passes it on.
func (h *tailHandler) Handle(ctx context.Context, r slog.Record) error {
	var b bytes.Buffer
	var text slog.Handler = slog.NewTextHandler(&b, &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
		if len(groups) == 0 && (a.Key == slog.TimeKey || a.Key == slog.LevelKey || a.Key == slog.MessageKey) {
			return slog.Attr{}
		}
		return a
	}})
	for _, with := range h.with {
		text = with(text)
	}
	_ = text.Handle(ctx, r)
	h.tail.add(bloom.LogLine{At: timing.Millis(r.Time), Level: r.Level.String(), Text: strings.TrimSpace(r.Message + " " + strings.TrimSpace(b.String()))})
	return h.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h *tailHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return h.then(h.Handler.WithAttrs(attrs), func(to slog.Handler) slog.Handler { return to.WithAttrs(attrs) })
}

// WithGroup implements slog.Handler.
func (h *tailHandler) WithGroup(name string) slog.Handler {
	return h.then(h.Handler.WithGroup(name), func(to slog.Handler) slog.Handler { return to.WithGroup(name) })
}

func (h *tailHandler) then(inner slog.Handler, with func(slog.Handler) slog.Handler) slog.Handler {
	return &tailHandler{Handler: inner, tail: h.tail, with: append(h.with[:len(h.with):len(h.with)], with)}
}
