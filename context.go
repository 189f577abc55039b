package bloom

// Context is a conversation: the tasks that share a context id, as a whole.
type Context struct {
	ID         string  `json:"id"`
	Tasks      int64   `json:"tasks" doc:"How many tasks were posted in it"`
	Unfinished int64   `json:"unfinished" doc:"How many of them have not ended"`
	Tokens     int64   `json:"tokens" doc:"What its attempts used so far"`
	CostUSD    float64 `json:"cost_usd" doc:"What its attempts cost so far, as far as they said; an estimate"`
	WorkerID   *string `json:"worker_id" doc:"The worker that was given a task of it last; it is the first choice for the next one"`
	SessionID  *string `json:"session_id" doc:"claude's session, null until the server has its transcript"`
	Size       int64   `json:"size" doc:"Bytes of the session's transcript that the server has"`
	CreatedAt  int64   `json:"created_at" doc:"When its first task was posted, Unix milliseconds"`
	LastUsedAt int64   `json:"last_used_at" doc:"When its newest task was posted, Unix milliseconds"`
	UpdatedAt  int64   `json:"updated_at" doc:"When a task of it last came, ended or came back, Unix milliseconds"`
}

// ErrContextNotFound says that no task was posted in a context, or that it was
// forgotten.
var ErrContextNotFound = NotFound("Context")

// ContextQuery selects contexts.
type ContextQuery struct {
	Page
}
