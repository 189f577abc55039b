package store

import (
	"github.com/bloom-runtime/bloom"
)

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

// Event is an entry of a task's stream to insert.
type Event struct {
	Task, Seq, At, Epoch int64
	WorkerSeq            *int64
	Type                 string
	Data                 []byte
}

// Changes is what a transaction writes.
type Changes struct {
	tables   []tableChanges // by the table's number; nil: unchanged
	dirty    bool           // there is something to write
	Outcomes []*Outcome
	Events   []Event
	Audits   []bloom.Audit
	Contexts map[string]*ContextChange
	// Forgotten are contexts to delete.
	Forgotten []string
	Filled    *int64 // tasks from this number on were backfilled
	Counts    Counts
	Series    Series
	Gauge     *Gauge
	Searched  []Searched
	Files     []NewArtifact // artifacts that are not part of outcomes
	Kept      []*Kept       // one per task
	Logs      []bloom.WorkerLogs
	Removal   Removal
	Links     []Link // hashes of newly chained entries
	Head      *bloom.ChainHead
	Export    *bloom.AuditExport
	Now       int64

	// Sealed is set by Commit when it has chained Audits.
	Sealed bool
}

// Empty reports whether there is nothing to write.
func (c *Changes) Empty() bool { return !c.dirty }

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
	// SessionsOf are keys whose sessions are removed. Sessions that expire at
	// SessionsBefore, in Unix milliseconds, or earlier are removed too.
	SessionsOf     []string
	SessionsBefore int64
}
