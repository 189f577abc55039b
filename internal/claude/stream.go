package claude

import (
	"encoding/json"
	"errors"
	"strings"
)

// message is one line of claude's output, of any type. Fields that a version lacks, or
// that have another type, stay zero.
type message struct {
	Type      string `json:"type"`
	Subtype   string `json:"subtype"`
	SessionID string `json:"session_id"`

	// system/init
	Model          string   `json:"model"`
	Version        string   `json:"claude_code_version"`
	Cwd            string   `json:"cwd"`
	APIKeySource   string   `json:"apiKeySource"`
	PermissionMode string   `json:"permissionMode"`
	Tools          []string `json:"tools"`

	// assistant and user
	Message *turnMessage `json:"message"`
	UUID    string       `json:"uuid"` // as in the session's file
	Parent  string       `json:"parent_tool_use_id"`

	// stream_event
	Event *streamEvent `json:"event"`

	// system/api_retry
	Attempt      int             `json:"attempt"`
	MaxRetries   int             `json:"max_retries"`
	RetryDelayMS float64         `json:"retry_delay_ms"`
	ErrorStatus  int             `json:"error_status"`
	Error        json.RawMessage `json:"error"` // a string; in some versions an object

	// system/background_tasks_changed: all that run now
	Tasks []backgroundTask `json:"tasks"`

	// system/informational
	Prevented bool `json:"prevent_continuation"` // a hook ended the turn

	// rate_limit_event
	RateLimit *rateLimit `json:"rate_limit_info"`

	// result
	IsError        bool               `json:"is_error"`
	Result         *string            `json:"result"`
	Errors         []string           `json:"errors"`
	TotalCostUSD   *float64           `json:"total_cost_usd"`
	NumTurns       int64              `json:"num_turns"`
	TerminalReason string             `json:"terminal_reason"`
	StopReason     string             `json:"stop_reason"`
	APIError       string             `json:"api_error"`         // such as max_output_tokens
	QueuedTurns    int                `json:"queued_turn_count"` // turns that follow by themselves
	APIErrorStatus int                `json:"api_error_status"`
	Usage          *usage             `json:"usage"`
	Denials        []permissionDenial `json:"permission_denials"`
	// ModelUsage and TotalCostUSD include the earlier turns of a resumed session.
	// SinceLast, of newer versions, counts this turn only.
	ModelUsage map[string]modelUsage `json:"modelUsage"`
	SinceLast  map[string]modelUsage `json:"model_usage_since_last_result"`

	// system/permission_denied
	ToolName string `json:"tool_name"`
}

type turnMessage struct {
	ID      string          `json:"id"`
	Model   string          `json:"model"`
	Content json.RawMessage `json:"content"` // a string or blocks
	Usage   *usage          `json:"usage"`
	// StopReason is set in messages that were not streamed.
	StopReason string `json:"stop_reason"`
}

// synthetic reports whether the message is claude's own text, not the model's.
func (m *turnMessage) synthetic() bool { return m != nil && strings.HasPrefix(m.Model, "<") }

type block struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	Thinking  string          `json:"thinking"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	ToolUseID string          `json:"tool_use_id"`
	Content   json.RawMessage `json:"content"`
	IsError   bool            `json:"is_error"`
}

type streamEvent struct {
	Type    string       `json:"type"`
	Message *turnMessage `json:"message"`
	UUID    string       `json:"uuid"` // as in the session's file
	Usage   *usage       `json:"usage"`
	Delta   struct {
		StopReason string `json:"stop_reason"`
	} `json:"delta"`
}

type usage struct {
	Input         int64 `json:"input_tokens"`
	Output        int64 `json:"output_tokens"`
	CacheCreation int64 `json:"cache_creation_input_tokens"`
	CacheRead     int64 `json:"cache_read_input_tokens"`
}

type modelUsage struct {
	Input         int64   `json:"inputTokens"`
	Output        int64   `json:"outputTokens"`
	CacheCreation int64   `json:"cacheCreationInputTokens"`
	CacheRead     int64   `json:"cacheReadInputTokens"`
	CostUSD       float64 `json:"costUSD"`
}

// backgroundTask is work that claude does beside its turn, such as a subagent or a command.
type backgroundTask struct {
	ID   string `json:"task_id"`
	Type string `json:"task_type"`
}

// endless reports whether the task may never end, such as a server that a command started.
func (b backgroundTask) endless() bool {
	return b.Type == "local_bash" || strings.HasPrefix(b.Type, "monitor")
}

type permissionDenial struct {
	Tool string `json:"tool_name"`
}

// rateLimit is the state of a rate limit, as the provider reports it.
type rateLimit struct {
	Status   string `json:"status"` // allowed, allowed_warning, rejected
	ResetsAt int64  `json:"resetsAt"`
	Kind     string `json:"rateLimitType"`
}

// parse decodes one line. ok is false unless it is a JSON object with a type. A field of
// an unexpected type is ignored, and so is a session id that is none of claude's.
func parse(line []byte) (m message, ok bool) {
	var wrongType *json.UnmarshalTypeError
	if err := json.Unmarshal(line, &m); err != nil && !errors.As(err, &wrongType) {
		return message{}, false
	}
	if !validSession(m.SessionID) {
		m.SessionID = ""
	}
	return m, m.Type != ""
}

// blocks decodes the content of a message; a string is one text block.
func (m *turnMessage) blocks() []block {
	if m == nil {
		return nil
	}
	var text string
	if json.Unmarshal(m.Content, &text) == nil {
		return []block{{Type: "text", Text: text}}
	}
	var blocks []block
	var wrongType *json.UnmarshalTypeError
	if err := json.Unmarshal(m.Content, &blocks); err != nil && !errors.As(err, &wrongType) {
		return nil
	}
	return blocks
}

// plain returns the text of a content that may be a string, blocks or anything else.
func plain(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	var blocks []block
	if json.Unmarshal(raw, &blocks) == nil {
		for _, b := range blocks {
			text += b.Text
		}
		return text
	}
	return string(raw)
}
