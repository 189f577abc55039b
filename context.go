package bloom

// Context is a conversation: the tasks that share a context id, as a whole.
type Context struct {
	ID         string  `json:"id"`
	Name       string  `json:"name" doc:"What people call it; empty until it is named"`
	Pinned     bool    `json:"pinned" doc:"Shown first in lists of contexts"`
	LastPrompt string  `json:"last_prompt" doc:"The beginning of its newest task's prompt; empty when retention removed the task"`
	LastStatus string  `json:"last_status" doc:"The status of its newest task; empty when retention removed the task"`
	Tasks      int64   `json:"tasks" doc:"How many tasks it has"`
	Unfinished int64   `json:"unfinished" doc:"How many of them have not ended"`
	Tokens     int64   `json:"tokens" doc:"Tokens that its attempts used so far"`
	CostUSD    float64 `json:"cost_usd" doc:"What its attempts cost so far, the running ones included, where reported; an estimate"`
	WorkerID   *string `json:"worker_id" doc:"The worker that last got one of its tasks; the first choice for the next one"`
	SessionID  *string `json:"session_id" doc:"claude's session, null until the server has its transcript"`
	Size       int64   `json:"size" doc:"Bytes of the session's transcript on the server"`
	Workspace  int64   `json:"workspace_size" doc:"Bytes of the snapshot of its working folder on the server; 0 when there is none"`
	CreatedAt  int64   `json:"created_at" doc:"When its first task was posted, Unix milliseconds"`
	LastUsedAt int64   `json:"last_used_at" doc:"When its newest task was posted, Unix milliseconds"`
	UpdatedAt  int64   `json:"updated_at" doc:"When one of its tasks was last created, ended or requeued, Unix milliseconds"`
}

// ErrContextNotFound is returned for a context that has no tasks or was forgotten.
var ErrContextNotFound = NotFound("Context")

// Exchange is an earlier task of a context, abridged.
type Exchange struct {
	Prompt string `json:"prompt"`
	Output string `json:"output"`
}

// ForgottenContext announces a forgotten context to workers.
type ForgottenContext struct {
	Seq int64  `json:"seq"`
	ID  string `json:"id"`
	At  int64  `json:"-"` // when, Unix milliseconds
	// Used means that the context has tasks again.
	Used bool `json:"used,omitempty" doc:"The context has tasks again"`
}

// ContextQuery selects contexts.
type ContextQuery struct {
	Text    string // part of the id or the name, in any case
	Pinned  bool   // only those that are pinned
	ShortID string // the last 8 characters of the id
	Page
}
