package standin

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync/atomic"
)

// Usage is the reported usage of a reply, in tokens.
type Usage struct {
	Input         int64 `json:"input_tokens"`
	Output        int64 `json:"output_tokens"`
	CacheCreation int64 `json:"cache_creation_input_tokens"`
	CacheRead     int64 `json:"cache_read_input_tokens"`
}

// ToolUse makes the command line run one of its tools.
type ToolUse struct {
	Name  string
	Input any
}

// Reply is one scripted answer of the model. The zero Reply is an empty text.
type Reply struct {
	Thinking string // before the text
	Text     string
	Tools    []ToolUse // after the text; the reply then stops for tool use
	Usage    Usage     // zero means 10 in and 5 out
	Stop     string    // the stop reason; empty means tool_use with tools, else end_turn
	Model    string    // empty means the requested model

	// Until, when not nil, delays the reply until it is closed or the caller disconnects.
	Until <-chan struct{}
	// HangAfterStart sends the start of the stream immediately and only the rest after Until.
	HangAfterStart bool

	// With Broken, the reply is a stream, even if none was requested, which ends with an error
	// event of ErrorType after its content.
	Broken bool

	// A Status of 400 or more makes the reply an API error.
	Status       int
	ErrorType    string
	ErrorMessage string
	Header       map[string]string
}

// Error returns an API error with a status and a message.
func Error(status int, kind, message string) Reply {
	return Reply{Status: status, ErrorType: kind, ErrorMessage: message}
}

// Tool returns a reply with text and then one tool call.
func Tool(text, name string, input any) Reply {
	return Reply{Text: text, Tools: []ToolUse{{Name: name, Input: input}}}
}

// wait delays the reply; false means that the caller has disconnected.
func (r Reply) wait(ctx context.Context) bool {
	if r.Until == nil || r.HangAfterStart {
		return true
	}
	return r.released(ctx)
}

func (r Reply) released(ctx context.Context) bool {
	select {
	case <-r.Until:
		return true
	case <-ctx.Done():
		return false
	}
}

func (r Reply) usage() Usage {
	if r.Usage == (Usage{}) {
		return Usage{Input: 10, Output: 5}
	}
	return r.Usage
}

func (r Reply) stopReason() string {
	if r.Stop != "" {
		return r.Stop
	}
	if len(r.Tools) > 0 {
		return "tool_use"
	}
	return "end_turn"
}

var serial atomic.Int64

func nextID(prefix string) string { return fmt.Sprintf("%s_standin%08d", prefix, serial.Add(1)) }

// message returns the reply as one JSON object, for callers that do not stream.
func (r Reply) message(model string) map[string]any {
	content := []map[string]any{}
	if r.Thinking != "" {
		content = append(content, map[string]any{"type": "thinking", "thinking": r.Thinking, "signature": "c3RhbmRpbg=="})
	}
	if r.Text != "" || len(r.Tools) == 0 && r.Thinking == "" && !r.Broken {
		content = append(content, map[string]any{"type": "text", "text": r.Text})
	}
	for _, tool := range r.Tools {
		content = append(content, map[string]any{"type": "tool_use", "id": nextID("toolu"), "name": tool.Name, "input": tool.Input})
	}
	return map[string]any{
		"id": nextID("msg"), "type": "message", "role": "assistant", "model": r.model(model),
		"content": content, "stop_reason": r.stopReason(), "stop_sequence": nil, "usage": r.usage(),
	}
}

func (r Reply) model(asked string) string {
	if r.Model != "" {
		return r.Model
	}
	return asked
}

// stream sends the reply as server-sent events, block by block.
func (r Reply) stream(w http.ResponseWriter, ctx context.Context, model string) {
	out := eventWriter{w: w}
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)

	message := r.message(model)
	content := message["content"].([]map[string]any)
	usage := r.usage()
	start := usage
	start.Output = 1
	message["content"], message["stop_reason"], message["usage"] = []any{}, nil, start
	out.send("message_start", map[string]any{"message": message})
	if r.HangAfterStart && r.Until != nil && !r.released(ctx) {
		return
	}
	for index, block := range content {
		out.block(index, block)
	}
	if r.Broken {
		out.send("error", map[string]any{"error": map[string]string{"type": r.ErrorType, "message": r.ErrorMessage}})
		return
	}
	out.send("message_delta", map[string]any{
		"delta": map[string]any{"stop_reason": r.stopReason(), "stop_sequence": nil},
		"usage": usage,
	})
	out.send("message_stop", map[string]any{})
}

type eventWriter struct{ w http.ResponseWriter }

// block sends one content block: its start, its content in pieces, its stop.
func (e eventWriter) block(index int, block map[string]any) {
	var start, delta map[string]any
	switch block["type"] {
	case "thinking":
		start = map[string]any{"type": "thinking", "thinking": "", "signature": ""}
		delta = map[string]any{"type": "thinking_delta", "thinking": block["thinking"]}
	case "tool_use":
		input, _ := json.Marshal(block["input"]) // scripted by a test; always marshals
		start = map[string]any{"type": "tool_use", "id": block["id"], "name": block["name"], "input": map[string]any{}}
		delta = map[string]any{"type": "input_json_delta", "partial_json": string(input)}
	default:
		start = map[string]any{"type": "text", "text": ""}
		delta = map[string]any{"type": "text_delta", "text": block["text"]}
	}
	e.send("content_block_start", map[string]any{"index": index, "content_block": start})
	e.send("content_block_delta", map[string]any{"index": index, "delta": delta})
	if signature, signed := block["signature"]; signed {
		e.send("content_block_delta", map[string]any{"index": index, "delta": map[string]any{"type": "signature_delta", "signature": signature}})
	}
	e.send("content_block_stop", map[string]any{"index": index})
}

func (e eventWriter) send(kind string, body map[string]any) {
	body["type"] = kind
	data, _ := json.Marshal(body) // maps of plain values always marshal
	fmt.Fprintf(e.w, "event: %s\ndata: %s\n\n", kind, data)
	if flusher, ok := e.w.(http.Flusher); ok {
		flusher.Flush()
	}
}
