package bloom

// Outcome is how an attempt at a task ended.
type Outcome string

// The outcomes of an attempt.
const (
	OutcomeSuccess Outcome = "success"
	OutcomeError   Outcome = "error"
)

// Metrics describes what an attempt used.
type Metrics struct {
	DurationMS   int64    `json:"duration_ms" required:"false" minimum:"0" default:"0"`
	TokensUsed   *int64   `json:"tokens_used,omitempty" minimum:"0"`
	InputTokens  *int64   `json:"input_tokens,omitempty" minimum:"0"`
	OutputTokens *int64   `json:"output_tokens,omitempty" minimum:"0"`
	CostUSD      *float64 `json:"cost_usd,omitempty" minimum:"0" doc:"An estimate; see cost_kind"`
	CostKind     string   `json:"cost_kind,omitempty" enum:"api_usd,subscription_estimate,none" doc:"Whether cost_usd is billed"`
	NumTurns     *int64   `json:"num_turns,omitempty" minimum:"0"`
	Model        string   `json:"model,omitempty"`
	// Warnings qualify the outcome: a success during which every tool was denied has one.
	Warnings []Warning `json:"warnings,omitempty" nullable:"false" maxItems:"32" doc:"What qualifies the outcome, for example tools that were denied"`
}

// MaxWarnings bounds Metrics.Warnings.
const MaxWarnings = 32

// Warning is something that qualifies an outcome.
type Warning struct {
	Code string `json:"code" minLength:"1" maxLength:"64" doc:"For programs, for example permission_denied"`
	Text string `json:"text" maxLength:"1024" doc:"For people"`
}

// Result is the recorded outcome of one attempt. A lease has at most one.
type Result struct {
	ID           string  `json:"id" format:"uuid"`
	TaskID       string  `json:"task_id" format:"uuid"`
	WorkerID     string  `json:"worker_id"`
	ArtifactID   string  `json:"artifact_id" format:"uuid"`
	Status       Outcome `json:"status" enum:"success,error"`
	Output       *string `json:"output"`
	ErrorMessage *string `json:"error_message"`
	Metrics      Metrics `json:"metrics"`
	CompletedAt  int64   `json:"completed_at" doc:"Unix milliseconds"`
	ErrorClass   *string `json:"error_class"`
	Epoch        int64   `json:"epoch"`

	OutputTruncated bool `json:"output_truncated,omitempty" doc:"Only the beginning of the output is shown; the artifact's content has all of it"`
}

// ErrorClass is why an attempt failed, in one word.
type ErrorClass = string

// The error classes a result carries. The comments are in docs/reference/errors.md.
const (
	ClassTimeout          ErrorClass = "timeout"           // the task exceeded its time limit, or claude printed nothing for too long; the conversation is kept
	ClassCancelled        ErrorClass = "cancelled"         // the task was cancelled
	ClassRateLimited      ErrorClass = "rate_limited"      // the provider limits the rate; the task waits until the limit is reset, and the attempt does not count
	ClassAuth             ErrorClass = "auth"              // claude is not logged in, or its credentials are refused or have no credit; the task waits, and the worker pauses
	ClassProviderError    ErrorClass = "provider_error"    // the provider's API failed or could not be reached; the task runs again while attempts are left
	ClassBudgetExceeded   ErrorClass = "budget_exceeded"   // the run used more tokens than policy.budget, or exceeded a limit of the worker
	ClassContextTooLong   ErrorClass = "context_too_long"  // the conversation is too long for the model, or the answer filled the context window
	ClassRefused          ErrorClass = "refused"           // the model refused the task, or a hook of claude's settings stopped it
	ClassIncomplete       ErrorClass = "incomplete"        // the answer is missing or not complete
	ClassInvalidInput     ErrorClass = "invalid_input"     // the model's API refused the request
	ClassPermissionDenied ErrorClass = "permission_denied" // claude could not continue without a permission, or used a tool that is denied
	ClassOutputInvalid    ErrorClass = "output_invalid"    // the answer was not JSON, even after a second request, or was longer than 31 MiB
	ClassCrashed          ErrorClass = "crashed"           // claude exited without a result, or its exit code contradicts its result; the task runs again while attempts are left
	ClassWorkerLost       ErrorClass = "worker_lost"       // the worker lost its lease, and its result is discarded; the task runs again while attempts are left
	ClassInternal         ErrorClass = "internal"          // claude is missing on the worker, could not be started, or offers tools that tasks may not use; another worker may succeed
)

// Completion is a worker's report at the end of an attempt. A success needs an output, which may be
// empty; an error needs an error message.
type Completion struct {
	LeaseID      string   `json:"lease_id" required:"false" doc:"The lease it ends; defaults to the active lease"`
	Status       Outcome  `json:"status" enum:"success,error"`
	Output       *string  `json:"output" required:"false"`
	ErrorMessage *string  `json:"error_message" required:"false"`
	Metrics      Metrics  `json:"metrics" required:"false"`
	ArtifactType string   `json:"artifact_type" required:"false" maxLength:"128" default:"LLM_RESULT"`
	ArtifactTags []string `json:"artifact_tags" required:"false" nullable:"false" maxItems:"64"`
	ErrorClass   string   `json:"error_class" required:"false" maxLength:"64"`
	Retryable    bool     `json:"retryable" required:"false" default:"false" doc:"The error is worth another attempt; requires lease_id"`
	// Transcript, when not nil, is the context's conversation after the turn.
	Transcript *TranscriptUpdate `json:"transcript,omitempty" doc:"The context's conversation after the turn; its parts were uploaded under the same lease"`
	// Workspace, when not nil, is the context's working folder after the turn.
	Workspace *WorkspaceUpdate `json:"workspace,omitempty" doc:"The context's working folder after the turn; its parts were uploaded under the same lease"`
}

// Check returns what is wrong with a completion beyond the limits of its fields.
func (c Completion) Check() []FieldError {
	switch {
	case c.Status == OutcomeSuccess && c.Output == nil:
		return []FieldError{{Field: "output", Message: "is required for a success; it may be empty"}}
	case c.Status == OutcomeError && (c.ErrorMessage == nil || *c.ErrorMessage == ""):
		return []FieldError{{Field: "error_message", Message: "is required for an error"}}
	}
	return nil
}

// ReleaseSpec asks to release an unfinished task; its attempt is refunded.
type ReleaseSpec struct {
	LeaseID   string `json:"lease_id" minLength:"1"`
	Reason    string `json:"reason" required:"false" maxLength:"1024"`
	NotBefore int64  `json:"not_before" required:"false" minimum:"0" default:"0" doc:"Earliest next start, Unix milliseconds, at most 8 days ahead; 0 means now"`
}

// Completed is the result of a completion.
type Completed struct {
	Task     Task     `json:"task"`
	Artifact Artifact `json:"artifact"`
	Result   Result   `json:"result"`
	Replayed bool     `json:"-"`
	HeldMS   int64    `json:"-"` // how long the lease was held; 0 for a replay
}
