package store

import (
	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/lifecycle"
)

// Move sets the URL of an artifact's content.
type Move struct{ ID, URL string }

// NewArtifact is an artifact to insert. Displaced: its content is not where it
// belongs and is moved later.
type NewArtifact struct {
	bloom.Artifact
	Displaced bool
}

// Kept changes a task's transcription state: the last event that is in a transcript
// (nil: unchanged), and whether more events are to be transcribed.
type Kept struct {
	Task int64
	UpTo *int64
	Due  bool
}

// Lease is a lease to insert or update.
type Lease struct {
	bloom.Lease
	Was *bloom.Lease // as loaded; nil for a new one

	changed bool
}

// Event is an entry of a task's stream to insert.
type Event struct {
	Task, Seq, At, Epoch int64
	WorkerSeq            *int64
	Type                 string
	Data                 []byte
}

// Changes is what a transaction writes. Updated tasks and leases are locked.
type Changes struct {
	NewTasks    []*Task
	Tasks       []*Task
	NewLeases   []*Lease
	Leases      []*Lease
	Outcomes    []*Outcome
	Events      []Event
	Audits      []bloom.Audit
	Workers     []*lifecycle.KnownWorker // new ones too
	Settings    map[string]string
	Contexts    map[string]*ContextChange
	Transcripts map[string]*bloom.Transcript // by context; nil: deleted
	// NewTranscripts are contexts that had no transcript: no row was locked for them, so
	// the transaction must fail if another one has inserted one.
	NewTranscripts Set[string]
	Forgotten      []string               // contexts to delete
	Filled         *int64                 // tasks from this number on were backfilled
	APIKeys        []*bloom.StoredKey     // new ones too
	Sessions       []*bloom.StoredSession // new ones too
	Counts         Counts
	Series         Series
	Gauge          *Gauge
	Moves          []Move
	Searched       []Searched
	Files          []NewArtifact // artifacts that are not part of outcomes
	Kept           []*Kept       // one per task
	Logs           []bloom.WorkerLogs
	Removal        Removal
	Links          []Link // hashes of newly chained entries
	Head           *bloom.ChainHead
	Export         *bloom.AuditExport
	Now            int64

	// Sealed is set by Commit when it has chained Audits.
	Sealed bool
}

// Empty reports whether there is nothing to write.
func (c *Changes) Empty() bool {
	return len(c.NewTasks)+len(c.Tasks)+len(c.NewLeases)+len(c.Leases)+len(c.Outcomes)+len(c.Events)+len(c.Audits)+len(c.Workers)+len(c.Settings)+len(c.Contexts)+
		len(c.Moves)+len(c.APIKeys)+len(c.Sessions)+len(c.Transcripts)+len(c.Forgotten)+len(c.Searched)+len(c.Files)+len(c.Kept)+len(c.Logs) == 0 &&
		c.Filled == nil && c.Gauge == nil && c.Head == nil && c.Export == nil && c.Removal.empty()
}

// NewArtifacts returns the artifacts of outcomes, then Files.
func (c *Changes) NewArtifacts() []NewArtifact {
	all := make([]NewArtifact, 0, len(c.Outcomes)+len(c.Files))
	for _, o := range c.Outcomes {
		all = append(all, NewArtifact{o.Artifact, o.Displaced})
	}
	return append(all, c.Files...)
}

// Streams splits Kept into tasks that have only ended and tasks whose UpTo changes.
func (c *Changes) Streams() (ended, kept []*Kept) {
	for _, k := range c.Kept {
		if k.UpTo == nil {
			ended = append(ended, k)
		} else {
			kept = append(kept, k)
		}
	}
	return ended, kept
}

// Removal is what a transaction removes.
type Removal struct {
	Tasks    []*Aged         // with all their rows; the URLs of their content are added to the removed content
	Streams  []*Aged         // tasks whose events are removed
	Events   map[int64]int64 // by task's Seq: events with lower numbers are removed
	Audit    []int64
	Contents []int64 // rows of removed content, by number
	// Forgotten are rows of forgotten contexts, by number.
	Forgotten []int64
	URLs      []string // content to add to the removed content
	Sessions  []string
	// SessionsOf are keys whose sessions are removed. Sessions that expire at
	// SessionsBefore, in Unix milliseconds, or earlier are removed too.
	SessionsOf     []string
	SessionsBefore int64
}

func (r *Removal) empty() bool {
	return len(r.Tasks)+len(r.Streams)+len(r.Events)+len(r.Audit)+len(r.Contents)+len(r.Forgotten)+len(r.URLs)+len(r.Sessions)+len(r.SessionsOf) == 0 && r.SessionsBefore == 0
}
