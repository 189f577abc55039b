package bloom

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// TaskStatus is the status of a task. internal/lifecycle has its transitions.
type TaskStatus string

// The statuses of a task on the wire.
const (
	TaskQueued    TaskStatus = "queued"    // waits for a worker
	TaskLeased    TaskStatus = "leased"    // given to a worker that has not reported yet
	TaskRunning   TaskStatus = "running"   // its worker has sent at least one heartbeat
	TaskCompleted TaskStatus = "completed" // ended with a success
	TaskFailed    TaskStatus = "failed"    // ended with an error its worker reported
	TaskDead      TaskStatus = "dead"      // its last allowed lease expired
	TaskCancelled TaskStatus = "cancelled"
)

// TaskStatuses lists every status in the order in which a task passes through them.
var TaskStatuses = []TaskStatus{
	TaskQueued, TaskLeased, TaskRunning, TaskCompleted, TaskFailed, TaskDead, TaskCancelled,
}

// Terminal reports whether the status is final: only a requeue leaves it.
func (s TaskStatus) Terminal() bool {
	return s == TaskCompleted || s == TaskFailed || s == TaskDead || s == TaskCancelled
}

// Held reports whether a worker has the task.
func (s TaskStatus) Held() bool { return s == TaskLeased || s == TaskRunning }

// Format is the output format that a client wants.
type Format string

// The output formats. The output is a string either way.
const (
	FormatText Format = "text"
	FormatJSON Format = "json"
)

// Limits of a task, stated in the wire contract.
const (
	DefaultTimeoutSec  = 1800
	MaxTimeoutSec      = 86_400
	DefaultMaxAttempts = 3
	MaxMaxAttempts     = 10
)

// Workspace selects the working folder of a task.
type Workspace string

// WorkspaceContext is the context's own folder, which follows the context to other workers.
const WorkspaceContext Workspace = "context"

// Policy bounds one run of a task.
type Policy struct {
	TimeoutSec int   `json:"timeout_sec" minimum:"1" maximum:"86400" default:"1800" doc:"Longest time one run may take, in seconds"`
	Budget     int64 `json:"budget" minimum:"0" default:"0" doc:"Most tokens one run may use (input, output and cache creation); 0 means no limit"`
	Ordered    bool  `json:"ordered" default:"false" doc:"Wait for the earlier ordered tasks of the same context_id to end"`
	// Workspace says which working folder the task gets; empty is the worker's own.
	Workspace Workspace `json:"workspace,omitempty" required:"false" enum:"context" doc:"context: the task runs in its context's own folder, which follows the context from worker to worker; default: the worker's folder"`
	// Artifacts is nil when no files are uploaded.
	Artifacts []string `json:"artifacts,omitempty" nullable:"false" required:"false" maxItems:"16" itemMinLength:"1" itemMaxLength:"256" doc:"Globs in the worker's folder (out/**, *.log): the files that match when the run ends are uploaded as artifacts"`
	// Approval, Ask and Questions say what a person is asked about.
	Approval  string   `json:"approval,omitempty" required:"false" enum:"never,ask" doc:"ask: a person is asked about what the worker's permission mode would refuse; default: never"`
	Ask       []string `json:"ask,omitempty" nullable:"false" required:"false" maxItems:"64" itemMinLength:"1" itemMaxLength:"256" doc:"A person is asked about calls that match one of these permission rules of Claude, such as Bash(git push *) or WebFetch"`
	Questions bool     `json:"questions,omitempty" required:"false" doc:"Claude may ask people questions"`
}

// TaskSpec describes a task to create.
type TaskSpec struct {
	ContextID      string   `json:"context_id" minLength:"1" maxLength:"512" doc:"The conversation this task belongs to; tasks of one context share a Claude session"`
	AgentSlug      string   `json:"agent_slug" minLength:"1" maxLength:"256" doc:"The agent that does the work"`
	Prompt         string   `json:"prompt" minLength:"1" doc:"What to do"`
	ContextHints   []string `json:"context_hints" nullable:"false" required:"false" maxItems:"1000" doc:"Relative paths or globs in the worker's folder whose content is put before the prompt"`
	Policy         Policy   `json:"policy" required:"false"`
	DesiredFormat  Format   `json:"desired_format" required:"false" enum:"text,json" default:"text" doc:"Form of the output"`
	MaxAttempts    int      `json:"max_attempts" required:"false" minimum:"1" maximum:"10" default:"3" doc:"How many leases the task may use"`
	Priority       int      `json:"priority" required:"false" minimum:"-1000" maximum:"1000" default:"0" doc:"Higher goes first"`
	RunAt          int64    `json:"run_at" required:"false" minimum:"0" default:"0" doc:"Earliest start, Unix milliseconds; 0 means now"`
	DelayMS        int64    `json:"delay_ms,omitempty" required:"false" minimum:"0" maximum:"3155760000000" doc:"Start this long after the creation, in milliseconds, instead of at run_at; unlike that, it is the same whenever the request is repeated"`
	Labels         []string `json:"labels" nullable:"false" required:"false" maxItems:"32" itemMinLength:"1" itemMaxLength:"128" doc:"A worker must carry all of these labels to take the task"`
	IdempotencyKey string   `json:"idempotency_key" required:"false" maxLength:"255" doc:"A key chosen by the caller; posting again with it returns the first task"`
}

// Attachment is a file that was posted with a task. Its content is an artifact of the task.
type Attachment struct {
	Name       string `json:"name"`
	Size       int64  `json:"size" doc:"Bytes"`
	SHA256     string `json:"sha256" doc:"Hex digest of the content"`
	ArtifactID string `json:"artifact_id" format:"uuid"`
}

// Path returns where the file is in the task's working folder, unless another file has that name.
func (a Attachment) Path() string { return "attachments/" + a.Name }

// CheckName returns what is wrong with the name, or "". It becomes a file of a worker's folder, and a
// part of the prompt.
func (a Attachment) CheckName() string {
	switch name := a.Name; {
	case name == "" || len(name) > 200:
		return "must have 1 to 200 bytes"
	case !utf8.ValidString(name) || strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsGraphic(r) || r == utf8.RuneError }):
		return "must be plain text without control characters"
	case strings.ContainsAny(name, `/\`) || strings.ContainsAny(name[:1], "-. ~"):
		return "must be a file name without slashes that does not begin with a hyphen, dot, tilde or space"
	case strings.EqualFold(name, "CLAUDE.md") || strings.EqualFold(name, "CLAUDE.local.md"):
		return "is a file that claude would follow in later tasks; choose another name"
	}
	return ""
}

// Check returns what is wrong with a task beyond the limits of its fields.
func (s TaskSpec) Check() (wrong []FieldError) {
	for _, glob := range s.Policy.Artifacts {
		problem := CheckArtifactPath(strings.TrimPrefix(glob, "./"))
		if problem == "" && strings.ContainsAny(glob, "{}") {
			problem = "must not contain braces; list each pattern separately"
		}
		if problem != "" {
			wrong = append(wrong, FieldError{Field: "policy.artifacts", Message: problem})
		}
	}
	for _, rule := range s.Policy.Ask {
		if problem := CheckAskRule(rule); problem != "" {
			wrong = append(wrong, FieldError{Field: "policy.ask", Message: problem})
		}
	}
	return wrong
}

// TaskState is the part of a task that the rules in internal/lifecycle read and write.
type TaskState struct {
	Status          TaskStatus `json:"status" enum:"queued,leased,running,completed,failed,dead,cancelled"`
	UpdatedAt       int64      `json:"updated_at" doc:"Unix milliseconds"`
	LeaseID         *string    `json:"lease_id" doc:"The current or last lease; null while queued"`
	WorkerID        *string    `json:"worker_id" doc:"The current or last worker; null while queued"`
	Attempts        int        `json:"attempts" doc:"Leases used since the task was created or requeued"`
	MaxAttempts     int        `json:"max_attempts"`
	Errors          int        `json:"-"` // attempts that ended with an error and were retried, which sets the next delay
	RunAt           int64      `json:"run_at" doc:"Earliest start, Unix milliseconds"`
	ErrorClass      *string    `json:"error_class" doc:"Why the last attempt failed"`
	CancelRequested bool       `json:"cancel_requested"`
	Epoch           int64      `json:"epoch" doc:"Number of the current or last lease; never decreases"`
	// Approval is never changed in place.
	Approval *TaskApproval `json:"approval,omitempty" doc:"What it asks people about; absent if it does not"`
}

// Task is a unit of work for an agent. Lease and worker remain set after the end and are null while
// it is queued.
type Task struct {
	ID             string   `json:"id" format:"uuid"`
	ContextID      string   `json:"context_id"`
	AgentSlug      string   `json:"agent_slug"`
	Prompt         string   `json:"prompt"`
	ContextHints   []string `json:"context_hints" nullable:"false"`
	Policy         Policy   `json:"policy"`
	DesiredFormat  Format   `json:"desired_format" enum:"text,json"`
	CreatedAt      int64    `json:"created_at" doc:"Unix milliseconds"`
	Priority       int      `json:"priority"`
	Labels         []string `json:"labels" nullable:"false"`
	IdempotencyKey *string  `json:"idempotency_key"`
	RequestID      *string  `json:"request_id" doc:"The id of the request that created the task, X-Request-Id where the caller sent one; it is in the log of the server and of the worker"`
	TaskState

	Attachments []Attachment `json:"attachments,omitempty" nullable:"false" doc:"Files that were posted with the task; its worker puts them into the folder attachments"`

	// Set only by GET /llm-tasks/{id}.
	WaitingFor *WaitingFor `json:"waiting_for,omitempty" doc:"Why the task has not started; only while queued, and not in lists"`

	// Set only by GET /llm-tasks/{id} and lists.
	Usage *Usage `json:"usage,omitempty" doc:"What its attempts have used so far, the running one and those that were lost included; absent until something was reported"`

	StartedAt int64 `json:"started_at,omitempty" doc:"When the current or last attempt began, Unix milliseconds; absent while the task is queued"`

	// Set only by a search.
	Snippet *Snippet `json:"snippet,omitempty" doc:"Where a search matched the task; absent when it matched the id"`

	// Only lists truncate: GET /llm-tasks/{id} has the whole task.
	PromptTruncated bool `json:"prompt_truncated,omitempty" doc:"The list shows only the beginning of the prompt"`
	HintsTruncated  bool `json:"context_hints_truncated,omitempty" doc:"The list leaves the context hints out: they are long"`
}
