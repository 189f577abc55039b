package standin

import (
	"encoding/json"
	"net/http"
	"strings"
)

// Request is what the command line sent to the model.
type Request struct {
	Model    string          `json:"model"`
	Stream   bool            `json:"stream"`
	System   json.RawMessage `json:"system"`
	Messages []Message       `json:"messages"`
	Tools    []struct {
		Name string `json:"name"`
	} `json:"tools"`

	Header http.Header `json:"-"`
	Raw    []byte      `json:"-"`
}

// Message is one turn of the conversation.
type Message struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
}

// Text returns all texts of the message, one per line.
func (m Message) Text() string { return contentText(m.Content) }

// SystemText returns the request's system prompt.
func (r Request) SystemText() string { return contentText(r.System) }

// Conversation returns the text of every message, each after its role.
func (r Request) Conversation() string {
	var b strings.Builder
	for _, m := range r.Messages {
		b.WriteString(m.Role + ": " + m.Text() + "\n")
	}
	return b.String()
}

// LastUser returns the text of the newest user message, which may be a tool result.
func (r Request) LastUser() string {
	for i := len(r.Messages) - 1; i >= 0; i-- {
		if r.Messages[i].Role == "user" {
			return r.Messages[i].Text()
		}
	}
	return ""
}

// HasToolResult reports whether the newest message answers a tool call.
func (r Request) HasToolResult() bool {
	if len(r.Messages) == 0 {
		return false
	}
	return strings.Contains(string(r.Messages[len(r.Messages)-1].Content), `"tool_result"`)
}

// contentText decodes the API's two forms of content: a string, or blocks.
func contentText(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	var blocks []struct {
		Text    string          `json:"text"`
		Content json.RawMessage `json:"content"`
	}
	if json.Unmarshal(raw, &blocks) != nil {
		return ""
	}
	var parts []string
	for _, block := range blocks {
		if block.Text != "" {
			parts = append(parts, block.Text)
		}
		if len(block.Content) > 0 {
			parts = append(parts, contentText(block.Content))
		}
	}
	return strings.Join(parts, "\n")
}
