package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/bloom-runtime/bloom"
)

// view prints a task's stream for people: the agent's text in full, its tool calls in one line,
// errors in colour. It decodes events loosely and shows unknown types by name, so that a newer
// worker does not break an older command line.
type view struct {
	w        io.Writer // keeps its errors, if they matter
	p        painter
	progress bool
	lastText string
	warned   map[bloom.Warning]bool // by the stream
}

func newView(_ *invocation, w io.Writer, p painter, progress bool) *view {
	return &view{w: w, p: p, progress: progress, warned: map[bloom.Warning]bool{}}
}

// eventData is the union of the fields that the known events carry.
type eventData struct {
	Text      string          `json:"text"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	IsError   bool            `json:"is_error"`
	Code      string          `json:"code"`
	WorkerID  string          `json:"worker_id"`
	Reason    string          `json:"reason"`
	Message   string          `json:"error_message"`
	Path      string          `json:"path"`
	Error     string          `json:"error"`
	Attempt   int             `json:"attempt"`
	Hint      string          `json:"hint"`
	ErrorName string          `json:"error_class"`
}

func (v *view) note(style, line string) {
	if v.progress {
		fmt.Fprintln(v.w, v.p.paint(style, clean(line, false)))
	}
}

// warn prints even when progress is off.
func (v *view) warn(line string) {
	fmt.Fprintln(v.w, v.p.paint(styleYellow, "! "+clean(line, false)))
}

func (v *view) event(e bloom.Event) {
	var d eventData
	if err := json.Unmarshal(e.Data, &d); err != nil {
		d = eventData{} // an event whose data is not an object is shown by its type
	}
	switch e.Type {
	case "text":
		v.lastText = d.Text
		if v.progress {
			fmt.Fprintln(v.w, clean(strings.TrimRight(d.Text, "\n"), true))
		}
	case "thinking":
		v.note(styleDim, "… "+oneLine(d.Text, 160))
	case "tool_use":
		v.note(styleCyan, "→ "+d.Name+" "+toolInput(d.Input))
	case "tool_result":
		v.toolResult(d)
	case "hint_missing":
		v.warn("hint " + d.Hint + " is skipped" + reason(d))
	case "warning":
		v.warned[bloom.Warning{Code: d.Code, Text: d.Text}] = true
		v.warn(warning(e.Type, d, e.Data))
	case "api_retry", "rate_limit", "stderr":
		v.warn(warning(e.Type, d, e.Data))
	case "artifact":
		v.note(styleDim, "· artifact "+d.Path)
	case bloom.EventLeased:
		v.note(styleDim, "· leased to "+dash(d.WorkerID))
	case bloom.EventStarted:
		v.note(styleDim, "· started")
	case bloom.EventRetried, bloom.EventReleased, bloom.EventExpired, bloom.EventCancelRequested, bloom.EventRequeued:
		v.warn(strings.ReplaceAll(e.Type, "_", " ") + reason(d))
	case bloom.EventCreated, bloom.EventCompleted, bloom.EventFailed, bloom.EventDead, bloom.EventCancelled,
		"session", "usage", "result", "hints", "log":
		// The command itself reports the start and the end.
	default:
		v.note(styleDim, "· "+e.Type)
	}
}

func (v *view) toolResult(d eventData) {
	lines := strings.Split(strings.TrimSpace(d.Text), "\n")
	text := oneLine(lines[0], 120)
	if len(lines) > 1 {
		text += fmt.Sprintf(" (+%d lines)", len(lines)-1)
	}
	style, mark := styleDim, "  "
	if d.IsError {
		style, mark = styleRed, "  ✗ "
	}
	v.note(style, mark+text)
}

// toolInput returns the most informative part of a tool's input, in one line.
func toolInput(raw json.RawMessage) string {
	var in map[string]any
	if json.Unmarshal(raw, &in) == nil {
		for _, key := range []string{"command", "file_path", "path", "pattern", "url", "query", "description", "prompt"} {
			if s, ok := in[key].(string); ok {
				return oneLine(s, 120)
			}
		}
	}
	return oneLine(string(raw), 120)
}

func warning(kind string, d eventData, raw json.RawMessage) string {
	texts := []string{d.Text, d.Message, d.Error, d.Path, d.Hint}
	if i := slices.IndexFunc(texts, func(s string) bool { return s != "" }); i >= 0 {
		if kind == "warning" {
			return texts[i]
		}
		return strings.ReplaceAll(kind, "_", " ") + ": " + texts[i]
	}
	return strings.ReplaceAll(kind, "_", " ") + " " + oneLine(string(raw), 160)
}

func reason(d eventData) string {
	for _, s := range []string{d.Reason, d.Message, d.ErrorName} {
		if s != "" {
			return ": " + s
		}
	}
	return ""
}

func (v *view) reconnect(err error, wait time.Duration) {
	if err == nil {
		v.warn("the server has ended the stream; reconnecting in " + span(wait))
		return
	}
	v.warn(fmt.Sprintf("the stream broke (%v); reconnecting in %s", root(err), span(wait)))
}

// showed reports whether the user has just read the output in the stream.
func (v *view) showed(output string) bool {
	return v.progress && strings.TrimSpace(v.lastText) == strings.TrimSpace(output)
}

// verdict prints the last line: the outcome and what it used.
func (v *view) verdict(task bloom.Task, r *bloom.Result) {
	style, mark := styleGreen, "✓ "
	if task.Status != bloom.TaskCompleted {
		style, mark = styleRed, "✗ "
	}
	line := mark + string(task.Status)
	if class := deref(task.ErrorClass); class != "" && task.Status != bloom.TaskCompleted {
		line += " (" + class + ")"
	}
	if r != nil {
		if r.ErrorMessage != nil && task.Status != bloom.TaskCompleted {
			line += ": " + oneLine(*r.ErrorMessage, 500)
		}
		line += "  " + metricsLine(r.Metrics)
		for _, w := range r.Metrics.Warnings {
			if !v.warned[w] {
				fmt.Fprintln(v.w, v.p.paint(styleYellow, warningLine(w)))
			}
		}
	}
	fmt.Fprintln(v.w, v.p.paint(style, clean(line, false)))
}

func writeLine(w io.Writer, value any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(value)
}
