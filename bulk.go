package bloom

// MaxBulkTasks is how many tasks one bulk request may name.
const MaxBulkTasks = 1000

// TaskIDs is the body of a bulk request.
type TaskIDs struct {
	IDs []string `json:"ids" nullable:"false" minItems:"1" maxItems:"1000" doc:"The tasks; one that is named twice counts once"`
}

// TaskOutcome is what a bulk request did to one task: its status now, or why it was
// refused.
type TaskOutcome struct {
	ID     string     `json:"id"`
	OK     bool       `json:"ok"`
	Status TaskStatus `json:"status,omitempty" enum:"queued,leased,running,completed,failed,dead,cancelled" doc:"When ok: where the task is now"`
	Code   string     `json:"code,omitempty" doc:"When refused: stable; programs may branch on it"`
	Error  string     `json:"error,omitempty" doc:"When refused: one sentence a person understands"`
}

// TaskOutcomes is the answer to a bulk request, in the order of the request.
type TaskOutcomes struct {
	Results []TaskOutcome `json:"results" nullable:"false"`
}
