package bloom

// Limits of the stored log lines of a worker.
const (
	MaxLogLines = 100
	MaxLogLine  = 500 // bytes
)

// LogLine is a line of a worker's log.
type LogLine struct {
	At         int64  `json:"at" doc:"Unix milliseconds"`
	Level      string `json:"level" doc:"DEBUG, INFO, WARN or ERROR"`
	Text       string `json:"text" doc:"The message and its fields; at most 500 bytes"`
	InstanceID string `json:"instance_id,omitempty" required:"false" doc:"Which process logged it: a digest of its instance id"`
}

// LogReport is a worker's report of the last log lines of its process.
type LogReport struct {
	InstanceID string    `json:"instance_id" required:"false" maxLength:"128"`
	Lines      []LogLine `json:"lines" required:"false" nullable:"false" maxItems:"100"`

	// MustName is set for callers whose key is a worker's: while a known process of the
	// worker is alive, only a caller with its instance id may report.
	MustName bool `json:"-"`
}

// WorkerLogs are the last log lines that a worker reported, the oldest first.
type WorkerLogs struct {
	WorkerID  string    `json:"worker_id"`
	UpdatedAt int64     `json:"updated_at" doc:"Unix milliseconds; 0 when it never reported"`
	Lines     []LogLine `json:"lines" nullable:"false"`
}
