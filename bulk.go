package bloom

// MaxBulkTasks is the most tasks that one bulk request may name.
const MaxBulkTasks = 1000

// TaskIDs is the body of a bulk request.
type TaskIDs struct {
	IDs []string `json:"ids" nullable:"false" minItems:"1" maxItems:"1000" doc:"The tasks; duplicates count once"`
}

// TaskOutcome is the result of a bulk request for one task: its new status, or why the request was
// refused.
type TaskOutcome struct {
	ID     string     `json:"id"`
	OK     bool       `json:"ok"`
	Status TaskStatus `json:"status,omitempty" enum:"queued,leased,running,completed,failed,dead,cancelled" doc:"When ok: the task's new status"`
	Code   string     `json:"code,omitempty" doc:"When refused: stable; programs may branch on it"`
	Error  string     `json:"error,omitempty" doc:"When refused: one sentence a person understands"`
}

// TaskOutcomes is the answer to a bulk request, in the order of the request.
type TaskOutcomes struct {
	Results []TaskOutcome `json:"results" nullable:"false"`
}

// TasksMatching is the body of a bulk request for all tasks that meet every condition and whose
// status the operation can change. At least one condition is required. A request changes up to
// MaxBulkTasks tasks; the answer's Next continues.
type TasksMatching struct {
	Status    TaskStatus `json:"status" required:"false" enum:"queued,leased,running,completed,failed,dead,cancelled"`
	ContextID string     `json:"context_id" required:"false" maxLength:"512"`
	AgentSlug string     `json:"agent_slug" required:"false" maxLength:"512"`
	WorkerID  string     `json:"worker_id" required:"false" maxLength:"512"`
	Error     ErrorClass `json:"error_class" required:"false" maxLength:"64" doc:"Why the last attempt failed"`
	Labels    []string   `json:"labels,omitempty" required:"false" nullable:"false" maxItems:"32" itemMinLength:"1" itemMaxLength:"128" doc:"Labels that the task requires, all of them"`
	Since     int64      `json:"since,omitempty" required:"false" minimum:"0" maximum:"253402300799999" doc:"Created at this time or later, Unix milliseconds"`
	Until     int64      `json:"until,omitempty" required:"false" minimum:"0" maximum:"253402300799999" doc:"Created before this time, Unix milliseconds"`
	Text      string     `json:"q" required:"false" maxLength:"512" doc:"As q of the list of tasks"`
	DryRun    bool       `json:"dry_run" required:"false" doc:"Only count, up to 10000 tasks"`
	Next      string     `json:"next" required:"false" maxLength:"64" doc:"The answer's next, to continue after it"`
}

// Empty reports whether no condition is set.
func (m TasksMatching) Empty() bool {
	return m.Status == "" && m.ContextID == "" && m.AgentSlug == "" && m.WorkerID == "" && m.Error == "" && len(m.Labels) == 0 && m.Since == 0 && m.Until == 0 && m.Text == ""
}

// TasksMatched is the answer to a TasksMatching request.
type TasksMatched struct {
	Matched int64  `json:"matched" doc:"How many tasks matched"`
	Changed int64  `json:"changed" doc:"How many of them were changed, or asked to stop; 0 in a dry run"`
	Next    string `json:"next" doc:"Where to continue; empty at the end"`
}
