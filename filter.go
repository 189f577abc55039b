package bloom

// TaskFilter is a named selection of tasks that all users share. Empty fields match everything.
type TaskFilter struct {
	Name      string     `json:"name" readOnly:"true" required:"false" doc:"From the address"`
	Status    TaskStatus `json:"status" required:"false" enum:"queued,leased,running,completed,failed,dead,cancelled"`
	ContextID string     `json:"context_id" required:"false" maxLength:"512"`
	AgentSlug string     `json:"agent_slug" required:"false" maxLength:"512"`
	WorkerID  string     `json:"worker_id" required:"false" maxLength:"512"`
	Error     ErrorClass `json:"error_class" required:"false" maxLength:"64" doc:"Why the last attempt failed"`
	Text      string     `json:"q" required:"false" maxLength:"512" doc:"Part of the prompt or of the id"`
}
