package bloom

// TaskFilter is a named view of the list of tasks that all users share. Empty fields match everything.
type TaskFilter struct {
	Name      string     `json:"name" readOnly:"true" required:"false" doc:"From the address"`
	Status    TaskStatus `json:"status" required:"false" enum:"queued,leased,running,completed,failed,dead,cancelled"`
	ContextID string     `json:"context_id" required:"false" maxLength:"512"`
	AgentSlug string     `json:"agent_slug" required:"false" maxLength:"512"`
	WorkerID  string     `json:"worker_id" required:"false" maxLength:"512"`
	Error     ErrorClass `json:"error_class" required:"false" maxLength:"64" doc:"Why the last attempt failed"`
	Text      string     `json:"q" required:"false" maxLength:"512" doc:"Part of the prompt or of the id"`
	Labels    []string   `json:"labels,omitempty" required:"false" nullable:"false" maxItems:"32" itemMinLength:"1" itemMaxLength:"128" doc:"Labels that the task requires, all of them"`
	Within    int64      `json:"within_sec,omitempty" required:"false" minimum:"0" maximum:"315360000" doc:"Created within the last so many seconds; 0: at any time"`
	Sort      string     `json:"sort,omitempty" required:"false" maxLength:"32" doc:"How the web application sorts the list; empty: newest first"`
	Columns   []string   `json:"columns,omitempty" required:"false" nullable:"false" maxItems:"32" itemMinLength:"1" itemMaxLength:"32" doc:"The columns that the web application shows; absent: as each person chose"`
}
