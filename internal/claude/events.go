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

// The types of the events that a run emits. The comments are in docs/reference/events.md: when;
// data: its fields.
const (
	EventSession           = "session"            // claude has begun a turn; data: session_id resumed forked model claude_version permission_mode tools process workdir
	EventRestored          = "session_restored"   // the context's transcript was downloaded from the server; data: session_id bytes
	EventText              = "text"               // text of claude's answer; data: text parent truncated size
	EventWorkspaceRestored = "workspace_restored" // the context's working folder was downloaded from the server; data: bytes entries
	EventWorkspaceKept     = "workspace_kept"     // the context's working folder was uploaded; data: bytes entries
	EventThinking          = "thinking"           // claude's reasoning; data: text parent truncated size
	EventToolUse           = "tool_use"           // claude uses a tool; data: id name input parent, with input_text truncated size instead of a large input
	EventToolResult        = "tool_result"        // the result of a tool; data: id is_error text parent truncated size
	EventAPIRetry          = "api_retry"          // a request to the model's API failed, and claude retries it; data: attempt max_retries delay_ms status error
	EventRateLimit         = "rate_limit"         // the provider's rate limit; data: status limit resets_at
	EventHintMissing       = "hint_missing"       // a context hint, or a file of one, was not used; data: hint reason
	EventHints             = "hints"              // context files were put before the prompt; data: files
	EventWarning           = "warning"            // something about the run that someone should know; data: code text
	EventUsage             = bloom.EventUsage
	EventStderr            = "stderr" // claude printed a line to standard error; data: text truncated size
	EventResult            = "result" // the run has ended; data: ok error_class message metrics
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
