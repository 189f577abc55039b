package bloom

import (
	"encoding/json"
	"regexp"
)

// PolicyAsk is the value of Policy.Approval with which people are asked for what the worker's
// permission mode refuses.
const PolicyAsk = "ask"

// Kinds of requests.
const (
	ApprovalTool     = "tool"     // may this call run?
	ApprovalQuestion = "question" // Claude asks its own question
)

// ApprovalStatus is the status of a request for approval.
type ApprovalStatus string

// The statuses of a request. All but pending are final.
const (
	ApprovalPending   ApprovalStatus = "pending"
	ApprovalAllowed   ApprovalStatus = "allowed"
	ApprovalDenied    ApprovalStatus = "denied"
	ApprovalExpired   ApprovalStatus = "expired"   // nobody decided in time, which denies it
	ApprovalCancelled ApprovalStatus = "cancelled" // its task or attempt ended before
)

// MaxApprovalInput bounds the input of a call that people are asked about, in bytes.
const MaxApprovalInput = 256 << 10

// Approval is a request to a person: whether Claude may run exactly this call, or the answer to its
// question.
type Approval struct {
	ID          string            `json:"id" format:"uuid"`
	TaskID      string            `json:"task_id" format:"uuid"`
	ContextID   string            `json:"context_id"`
	WorkerID    string            `json:"worker_id" doc:"Whose run asked"`
	Kind        string            `json:"kind" enum:"tool,question"`
	Tool        string            `json:"tool"`
	ToolUseID   string            `json:"tool_use_id"`
	Input       json.RawMessage   `json:"input,omitempty" doc:"Not in lists"`
	InputSHA256 string            `json:"input_sha256" doc:"A decision names it"`
	Readable    string            `json:"readable" doc:"The request for people: the command, the change, the address, the question; lists show its beginning"`
	Status      ApprovalStatus    `json:"status" enum:"pending,allowed,denied,expired,cancelled"`
	AskedAt     int64             `json:"asked_at" doc:"Unix milliseconds"`
	ExpiresAt   int64             `json:"expires_at" doc:"When it is denied if nobody decides, Unix milliseconds"`
	DecidedAt   *int64            `json:"decided_at" doc:"Unix milliseconds"`
	DecidedBy   *string           `json:"decided_by"`
	Message     string            `json:"message" doc:"What the person says to Claude, or why there was no decision"`
	Answers     map[string]string `json:"answers,omitempty" doc:"question: the answers by question"`
	UsedBy      string            `json:"used_by,omitempty" doc:"The lease under which the decision was carried out; that happens once"`
}

// Decision decides a request.
type Decision struct {
	Decision    string            `json:"decision" enum:"allow,deny"`
	InputSHA256 string            `json:"input_sha256" minLength:"1" maxLength:"64" doc:"The request's: what is decided about"`
	Message     string            `json:"message,omitempty" required:"false" maxLength:"4096" doc:"For Claude: why not"`
	Answers     map[string]string `json:"answers,omitempty" required:"false" doc:"question: the answers, by the text of the question"`
}

// Ask is a worker's request under its lease. Asking again with the same call returns the same request.
type Ask struct {
	LeaseID   string          `json:"lease_id" minLength:"1"`
	Kind      string          `json:"kind" enum:"tool,question"`
	Tool      string          `json:"tool" minLength:"1" maxLength:"256"`
	ToolUseID string          `json:"tool_use_id" minLength:"1" maxLength:"256"`
	Input     json.RawMessage `json:"input"`
	WaitMS    int             `json:"wait_ms,omitempty" required:"false" minimum:"0" maximum:"60000" doc:"How long to wait for the decision"`
}

// Check returns what is wrong with a request beyond the limits of its fields.
func (a Ask) Check() []FieldError {
	if len(a.Input) == 0 || a.Input[0] != '{' {
		return []FieldError{{Field: "input", Message: "must be an object"}}
	}
	return nil
}

// SuspendSpec ends a lease because its run waits for a person. Its parts were uploaded before, under
// the same lease.
type SuspendSpec struct {
	LeaseID    string           `json:"lease_id" minLength:"1"`
	ApprovalID string           `json:"approval_id" minLength:"1"`
	Metrics    Metrics          `json:"metrics" required:"false" doc:"Of this lease's attempt"`
	Transcript TranscriptUpdate `json:"transcript"`
	Workspace  *WorkspaceUpdate `json:"workspace,omitempty" required:"false"`
}

// TaskApproval is where a task stands that asks people.
type TaskApproval struct {
	// Asking is the request that is not decided, or whose decision is not carried out yet.
	Asking    string      `json:"asking,omitempty" doc:"The id of the request"`
	Suspended *Suspension `json:"suspended,omitempty" doc:"Where its next attempt goes on; absent if it begins anew"`
}

// Suspension is where a task goes on that was suspended.
type Suspension struct {
	ApprovalID string  `json:"approval_id"`
	ToolUseID  string  `json:"tool_use_id"`
	Decided    bool    `json:"decided"`
	Metrics    Metrics `json:"metrics" doc:"What its attempts used until then, which counts against its limits"`
}

// Suspension returns where the task was suspended, nil if it was not.
func (t TaskState) Suspension() *Suspension {
	if t.Approval == nil {
		return nil
	}
	return t.Approval.Suspended
}

// ApprovalQuery selects requests; the zero value selects all, the newest first.
type ApprovalQuery struct {
	Status    ApprovalStatus
	TaskID    string
	ContextID string
	Page
}

// permissionRule is the form of Claude's permission rules: Tool or Tool(what).
var permissionRule = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_*-]*(\(.+\))?$`)

// CheckAskRule returns what is wrong with a rule, "" if nothing is.
func CheckAskRule(rule string) string {
	if !permissionRule.MatchString(rule) {
		return "must be a permission rule of Claude, such as Bash(git push *) or WebFetch"
	}
	return ""
}
