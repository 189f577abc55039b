package registry

// JobKind is the operation of a job.
type JobKind string

// The kinds of jobs.
const (
	JobPush JobKind = "push" // upload the node's memory to object storage
	JobPull JobKind = "pull" // download the memory from object storage
)

// JobState is the state of a job: queued → delivered → completed or failed.
type JobState string

// The states of a job. Delivered: the agent has the command and has not reported its outcome.
const (
	JobQueued    JobState = "queued"
	JobDelivered JobState = "delivered"
	JobCompleted JobState = "completed"
	JobFailed    JobState = "failed"
)

// Final reports whether the job is over.
func (s JobState) Final() bool { return s == JobCompleted || s == JobFailed }

// Job is one command to synchronize a project's memory, and its outcome.
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
	// Action, DryRun and RequestID are for clients of the earlier control plane.
	Action    JobKind `json:"action" enum:"push,pull" doc:"The same as kind"`
	DryRun    bool    `json:"dryrun" doc:"Always false: there are no dry runs"`
	RequestID string  `json:"request_id" doc:"The same as id"`
}

// JobOutput is the output of the program that an agent ran for a job.
type JobOutput struct {
	Stdout     string `json:"stdout" required:"false" maxLength:"65536"`
	Stderr     string `json:"stderr" required:"false" maxLength:"65536"`
	ReturnCode *int   `json:"returncode" required:"false" nullable:"true" doc:"Null when no program was run, or its output is unknown"`
}

// JobReport is the outcome of a job.
type JobReport struct {
	JobID  string   `json:"job_id" minLength:"1" maxLength:"64"`
	Status JobState `json:"status" enum:"completed,failed"`
	Detail string   `json:"detail" required:"false" maxLength:"4096"`
	JobOutput
}

// JobsReport is what a heartbeat reports about the agent's jobs: the outcomes of some, and which
// are in progress.
type JobsReport struct {
	Reports []JobReport
	Held    []string // ids
}

// JobFilter narrows a listing. Limit is at most 200; zero means 50.
type JobFilter struct {
	Project string
	Limit   int
}
