package bloom

// The severities.
const (
	SeverityError   = "error"   // work stops, or will soon
	SeverityWarning = "warning" // work continues, but someone should act
	SeverityInfo    = "info"    // nothing is wrong: tasks wait because a user asked for it
)

// Problem is something wrong with an installation, and how to fix it. Fields that do not apply to
// the code are absent.
type Problem struct {
	Code     string   `json:"code" doc:"Stable; programs may branch on it"`
	Severity string   `json:"severity" enum:"error,warning,info"`
	Sentence string   `json:"sentence" doc:"What is wrong, in English"`
	Action   string   `json:"action" doc:"What to do about it, in English"`
	Link     string   `json:"link" doc:"The page of the web application to look at, as a path"`
	Count    int64    `json:"count,omitempty" doc:"How many workers, tasks, artifacts or keys; the count is bounded"`
	More     bool     `json:"more,omitempty" doc:"There are more than were counted"`
	Names    []string `json:"names,omitempty" nullable:"false" doc:"Of workers, keys or the certificate's domain; at most 20"`
	Labels   []string `json:"labels,omitempty" nullable:"false" doc:"Labels that the waiting tasks require"`
	Since    int64    `json:"since,omitempty" doc:"Since when the oldest task waits, Unix milliseconds"`
	Until    int64    `json:"until,omitempty" doc:"Until when a limit, a delay, a certificate or a key lasts, Unix milliseconds"`
	Free     uint64   `json:"free_bytes,omitempty" doc:"disk_low: free space"`
	Causes   []Cause  `json:"causes,omitempty" nullable:"false" doc:"tasks_failed, tasks_dead: why, the most frequent first"`
}

// Cause is a reason why some of a problem's tasks failed.
type Cause struct {
	ErrorClass string `json:"error_class" doc:"As of a task; empty when none was reported"`
	Count      int64  `json:"count" doc:"How many of the examined tasks"`
	TaskID     string `json:"task_id" format:"uuid" doc:"The newest of them"`
}

// Problems lists what is wrong with an installation, most severe first.
type Problems struct {
	At       int64     `json:"at" doc:"When they were found, Unix milliseconds"`
	Problems []Problem `json:"problems" nullable:"false"`
}
