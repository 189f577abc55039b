package claude

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/storable"
)

// The types of the events that a run emits. docs/worker-and-claude.md has the
// table with their data.
const (
	EventSession  = "session"
	EventRestored = "session_restored"
	EventText     = "text"
	// EventWorkspaceRestored: the working folder was downloaded from the server.
	// EventWorkspaceKept: it was uploaded.
	EventWorkspaceRestored = "workspace_restored"
	EventWorkspaceKept     = "workspace_kept"
	EventThinking          = "thinking"
	EventToolUse           = "tool_use"
	EventToolResult        = "tool_result"
	EventAPIRetry          = "api_retry"
	EventRateLimit         = "rate_limit"
	EventHintMissing       = "hint_missing"
	EventHints             = "hints"
	EventWarning           = "warning"
	EventUsage             = bloom.EventUsage
	EventStderr            = "stderr"
	EventResult            = "result"
)

// maxEventText is the maximum length of a text in an event, in bytes. The artifact has
// the whole output.
const maxEventText = 64 << 10

type data = map[string]any

// emitter emits events one at a time. It is safe for concurrent use.
type emitter struct {
	mu       sync.Mutex
	emit     func(typ string, data any)
	warnings []bloom.Warning // for the outcome
}

// notInOutcome lists warnings that do not concern the outcome.
var notInOutcome = []string{"unreadable_line", "line_too_long", "output_repair"}

func (e *emitter) send(typ string, d data) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if typ == EventWarning {
		e.keepWarning(d)
	}
	if e.emit != nil {
		e.emit(typ, d)
	}
}

// keepWarning keeps a warning for the outcome, unless it has the same already.
func (e *emitter) keepWarning(d data) {
	code, _ := d["code"].(string)
	text, _ := d["text"].(string)
	w := bloom.Warning{Code: code, Text: storable.Cut(text, 1024)}
	if slices.Contains(notInOutcome, code) || slices.Contains(e.warnings, w) || len(e.warnings) >= bloom.MaxWarnings {
		return
	}
	e.warnings = append(e.warnings, w)
}

// outcomeWarnings returns the warnings for the outcome.
func (e *emitter) outcomeWarnings() []bloom.Warning {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.warnings)
}

func (e *emitter) warn(code, text string) {
	e.send(EventWarning, data{"code": code, "text": text})
}

func (e *emitter) denied(tool string) {
	e.warn("permission_denied", "claude was not permitted to use "+tool)
}

func (e *emitter) leftBehind(n int) {
	e.send(EventWarning, data{"code": "left_behind", "count": n,
		"text": fmt.Sprintf("%d processes were still running when claude ended; they were stopped", n)})
}

// text emits a text, truncated to maxEventText.
func (e *emitter) text(typ, key, text string, d data) {
	cut := storable.Cut(text, maxEventText)
	d[key] = cut
	if len(cut) < len(text) {
		d["truncated"], d["size"] = true, len(text)
	}
	e.send(typ, d)
}

// message emits the parts of an assistant's or a user's message that people read.
func (e *emitter) message(m message) {
	for _, b := range m.Message.blocks() {
		d := data{}
		if m.Parent != "" {
			d["parent"] = m.Parent
		}
		switch {
		case b.Type == "text" && m.Type == "assistant" && strings.TrimSpace(b.Text) != "":
			e.text(EventText, "text", b.Text, d)
		case b.Type == "thinking" && b.Thinking != "":
			e.text(EventThinking, "text", b.Thinking, d)
		case b.Type == "tool_use":
			d["id"], d["name"] = b.ID, b.Name
			e.toolInput(b.Input, d)
		case b.Type == "tool_result":
			d["id"], d["is_error"] = b.ToolUseID, b.IsError
			e.text(EventToolResult, "text", plain(b.Content), d)
		}
	}
}

func (e *emitter) toolInput(input json.RawMessage, d data) {
	if len(input) > maxEventText || !json.Valid(input) {
		e.text(EventToolUse, "input_text", string(input), d)
		return
	}
	d["input"] = append(json.RawMessage(nil), input...) // the line's memory is reused
	e.send(EventToolUse, d)
}
