package registry

// JobKind is what an agent is asked to do.
type JobKind string

// The kinds of jobs.
const (
	JobPush JobKind = "push" // send the node's memory to object storage
	JobPull JobKind = "pull" // take the memory from object storage
)

// JobState is how far a job is: queued → delivered → completed or failed.
type JobState string

// The states of a job. Delivered: the agent was told, and has not yet said how
// it went.
const (
	JobQueued    JobState = "queued"
	JobDelivered JobState = "delivered"
	JobCompleted JobState = "completed"
	JobFailed    JobState = "failed"
)

// Final reports whether the job is over.
func (s JobState) Final() bool { return s == JobCompleted || s == JobFailed }

// Job is one order to move a project's memory, and what became of it.
type Job struct {
	ID          string   `json:"id"`
	Kind        JobKind  `json:"kind" enum:"push,pull"`
	Project     string   `json:"project"`
	CanonicalID string   `json:"canonical_id"`
	Agent       string   `json:"agent"`
	Status      JobState `json:"status" enum:"queued,delivered,completed,failed"`
	Detail      string   `json:"detail"`
	CreatedAt   Seconds  `json:"created_at" doc:"Unix seconds"`
	UpdatedAt   Seconds  `json:"updated_at" doc:"Unix seconds"`
	FinishedAt  *Seconds `json:"finished_at" doc:"Unix seconds"`
	JobOutput
	// Action, DryRun and RequestID are what clients of the earlier control plane
	// look for.
	Action    JobKind `json:"action" enum:"push,pull" doc:"The same as kind"`
	DryRun    bool    `json:"dryrun" doc:"Always false: there are no dry runs"`
	RequestID string  `json:"request_id" doc:"The same as id"`
}

// JobOutput is what the program said that an agent ran for a job.
type JobOutput struct {
	Stdout     string `json:"stdout" required:"false" maxLength:"65536"`
	Stderr     string `json:"stderr" required:"false" maxLength:"65536"`
	ReturnCode *int   `json:"returncode" required:"false" nullable:"true" doc:"Null when no program was run, or nothing is known of it"`
}

// JobReport says how a job ended.
type JobReport struct {
	JobID  string   `json:"job_id" minLength:"1" maxLength:"64"`
	Status JobState `json:"status" enum:"completed,failed"`
	Detail string   `json:"detail" required:"false" maxLength:"4096"`
	JobOutput
}

// JobsSaid is what a heartbeat says of the agent's jobs: how some ended, and which it
// works on.
type JobsSaid struct {
	Reports []JobReport
	Held    []string // ids
}

// JobFilter narrows a listing. Limit is at most 200; zero means 50.
type JobFilter struct {
	Project string
	Limit   int
}
