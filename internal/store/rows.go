package store

import (
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/lifecycle"
	"github.com/bloom-runtime/bloom/internal/schema"
)

// Set is a set of names.
type Set[K comparable] map[K]struct{}

// Add puts names in.
func (s *Set[K]) Add(keys ...K) {
	if *s == nil {
		*s = make(Set[K], len(keys))
	}
	for _, k := range keys {
		(*s)[k] = struct{}{}
	}
}

// List is the set's names in any order.
func (s Set[K]) List() []K {
	keys := make([]K, 0, len(s))
	for k := range s {
		keys = append(keys, k)
	}
	return keys
}

// ReadSet names what is to be read. What is locked stays as it was read until the
// transaction ends: whoever writes a task, its leases, results and events has
// locked the task, whoever gives work to a worker has locked the worker, and whoever
// starts or ends ordered tasks has locked their context.
type ReadSet struct {
	Tasks      Set[string]     // by id; locked
	Active     Set[string]     // tasks whose active lease is meant; locked
	Leases     Set[string]     // by id; locked
	Workers    Set[string]     // by name, with what they hold counted; locked
	Ordered    map[string]int  // contexts: their first so many pending ordered tasks; the context is locked
	Held       map[string]bool // workers: what they hold; true: what can be is locked
	Queue      map[string]int  // label keys: the first so many open tasks, locked; those that others hold are skipped
	Askers     Set[string]     // workers that Queue is read for: tasks that wait for another one are left out
	Sets       map[string]int  // at most so many sets of labels in the queue after a key
	Views      Set[string]     // tasks by id, whole
	Texts      Set[string]     // prompt and hints of tasks, which never change
	Keys       Set[Key]        // idempotency keys
	Homes      Set[string]     // contexts: the worker of the last lease
	Knowing    Set[string]     // tasks: who knows their contexts
	Outcomes   Set[OutcomeKey] // stored outcomes
	Repeats    Set[EventKey]   // worker's events that may be stored
	Expired    Set[string]     // leases by id: whether they were reaped
	Online     bool            // all workers that are online
	Due        bool            // whether delayed tasks are due
	Numbers    int             // numbers for new tasks
	Contexts   Set[string]     // by id; locked
	Scripts    Set[string]     // transcripts of contexts; locked
	Filled     bool            // from which task on contexts are kept
	Spent      Set[string]     // tasks: what their attempts used
	Old        Set[string]     // tasks that may be removed; locked; those that others hold are skipped
	OldAudit   Set[int64]      // entries of the audit that may be removed
	APIKeys    Set[string]     // by id; locked
	Sessions   Set[string]     // by id; locked
	Places     Set[string]     // artifacts by id: where their content lies; locked
	Files      Set[FileKey]    // files of attempts
	FileCounts Set[OutcomeKey] // attempts: how many files they have
	Kept       Set[string]     // tasks: up to which event their streams lie in transcripts
	Unsealed   int             // the end of the audit's chain, and so many entries to be chained next; locked
	Export     bool            // how far the audit was exported; locked
}

// Empty reports whether nothing is wanted.
func (r *ReadSet) Empty() bool {
	return len(r.Tasks)+len(r.Active)+len(r.Leases)+len(r.Workers)+len(r.Ordered)+len(r.Held)+len(r.Queue)+len(r.Sets)+len(r.Views)+len(r.Texts)+
		len(r.Keys)+len(r.Homes)+len(r.Knowing)+len(r.Outcomes)+len(r.Repeats)+len(r.Expired)+len(r.Spent)+len(r.Contexts)+len(r.Scripts)+len(r.Old)+len(r.OldAudit)+len(r.Places)+len(r.APIKeys)+len(r.Sessions)+len(r.Files)+len(r.FileCounts)+len(r.Kept)+r.Numbers+r.Unsealed == 0 &&
		!r.Export && !r.Online && !r.Due && !r.Filled
}

func atLeast[K comparable](m *map[K]int, k K, n int) {
	if *m == nil {
		*m = map[K]int{}
	}
	(*m)[k] = max((*m)[k], n)
}

// Rows is what was read. In maps of pointers nil says that there is no such row.
type Rows struct {
	Now        int64 // the store's time when all was locked, Unix milliseconds
	Busy       Set[string]
	Tasks      map[string]*Task
	Active     map[string]string // lease ids by task, "" for none; the leases are in Leases
	Leases     map[string]*bloom.Lease
	Workers    map[string]*lifecycle.KnownWorker
	Ordered    map[string]Line
	Held       map[string][]Holding // in the order in which they were given
	Queue      map[string]Line      // by label key; the tasks are in Tasks
	Sets       map[string][]LabelSet
	Views      map[string]*Task
	Texts      map[string]Text
	Keys       map[Key]*Keyed
	Homes      map[string]*Home
	Knowing    map[string]lifecycle.ContextWorkers // by task
	Outcomes   map[OutcomeKey]*Outcome
	Repeats    map[EventKey]bool
	Expired    map[string]bool
	Online     []bloom.Worker // nil: not read
	Due        *bool
	Numbers    []int64
	Contexts   map[string]*bloom.Context
	Scripts    map[string]*bloom.Transcript
	Filled     *int64 // tasks numbered below are in no context yet
	Spent      map[string]Spent
	Old        map[string]*Aged
	OldAudit   map[int64]*AgedAudit
	APIKeys    map[string]*bloom.StoredKey
	Sessions   map[string]*bloom.StoredSession
	Places     map[string]*ContentPlace
	Files      map[FileKey]*bloom.Artifact
	FileCounts map[OutcomeKey]int64
	Kept       map[string]int64
	Chain      *Chain             // nil: not read, or somebody else has it
	Export     *bloom.AuditExport // nil: not read, or somebody else has it
}

func newRows() *Rows {
	return &Rows{
		Busy: Set[string]{}, Tasks: map[string]*Task{}, Active: map[string]string{}, Leases: map[string]*bloom.Lease{},
		Workers: map[string]*lifecycle.KnownWorker{}, Ordered: map[string]Line{}, Held: map[string][]Holding{}, Queue: map[string]Line{},
		Sets: map[string][]LabelSet{}, Views: map[string]*Task{}, Texts: map[string]Text{}, Keys: map[Key]*Keyed{}, Homes: map[string]*Home{},
		Knowing: map[string]lifecycle.ContextWorkers{}, Outcomes: map[OutcomeKey]*Outcome{}, Repeats: map[EventKey]bool{}, Expired: map[string]bool{},
		Spent: map[string]Spent{}, Contexts: map[string]*bloom.Context{}, Scripts: map[string]*bloom.Transcript{},
		Old: map[string]*Aged{}, OldAudit: map[int64]*AgedAudit{},
		APIKeys: map[string]*bloom.StoredKey{}, Sessions: map[string]*bloom.StoredSession{}, Places: map[string]*ContentPlace{},
		Files: map[FileKey]*bloom.Artifact{}, FileCounts: map[OutcomeKey]int64{}, Kept: map[string]int64{},
	}
}

// Task is a task with what the queue needs. Its prompt and hints are only there in
// a view and in a new task.
type Task struct {
	bloom.Task
	Seq       int64      // its place among all tasks
	Gate      bloom.Gate // "" unless queued
	Preferred *string    // the worker that others leave it to
	Until     int64      // of Preferred, Unix milliseconds
	LastEvent int64      // the last number of its stream

	Was      *Task   // as it was read; nil for a new one
	Scope    *string // whose idempotency key it has; of a new one
	BodyHash string  // of a new one
	Actor    string  // of a new one: who created it

	fresh   bool // it is new
	changed bool
}

// Text is what of a task may be long.
type Text struct {
	Prompt string
	Hints  []string
}

// Line is the beginning of a list of tasks.
type Line struct {
	Tasks []Place
	Cut   bool // it may go on
}

// Place is a task in a line.
type Place struct {
	ID   string
	Seq  int64
	Open bool // queued and not behind GateOrdered
}

// LabelSet is a set of labels that open tasks ask for.
type LabelSet struct {
	Key    string
	Labels []string
}

// Holding is an active lease and its task, as they are when nobody else works on
// them. Whether they were locked Rows.Leases and Rows.Tasks tell.
type Holding struct {
	Lease bloom.Lease
	Task  *Task
}

// Key is an idempotency key.
type Key struct{ Scope, Key string }

// Keyed is the task that first used a key.
type Keyed struct{ TaskID, BodyHash string }

// Home is the worker that last held a context.
type Home struct {
	Worker  lifecycle.KnownWorker
	Waiting int // open tasks that are left to it
}

// OutcomeKey names an outcome.
type OutcomeKey struct {
	TaskID string
	Epoch  int64
}

// Outcome is a result with what is kept beside it.
type Outcome struct {
	Result    bloom.Result
	Artifact  bloom.Artifact
	Displaced bool // of a new one: the artifact's content has to be moved
	BodyHash  string
}

// ContentPlace is where an artifact's content lies; nil: in the row.
type ContentPlace struct{ URL *string }

// Move is new of an artifact: its content lies at URL.
type Move struct{ ID, URL string }

// FileKey names a file of an attempt.
type FileKey struct {
	TaskID string
	Epoch  int64
	Path   string
}

// NewArtifact is an artifact that is to be written. Displaced: its content has to be
// moved.
type NewArtifact struct {
	bloom.Artifact
	Displaced bool
}

// Kept says what is new of a task's stream: up to which event it lies in transcripts,
// nil when that is as before, and whether more of it is to be put there.
type Kept struct {
	Task int64
	UpTo *int64
	Due  bool
}

// Globs reads what schema.ListJSON wrote; nil when there are none.
func Globs(text string) []string {
	if text == "" || text == "[]" {
		return nil
	}
	return schema.ParseList(text)
}

// EventKey names an event of a worker under its task's current lease.
type EventKey struct {
	TaskID string
	Seq    int64
}

// Lease is a lease that is to be written.
type Lease struct {
	bloom.Lease
	Was *bloom.Lease // as it was read; nil for a new one

	changed bool
}

// Event is an entry of a stream that is to be written.
type Event struct {
	Task, Seq, At, Epoch int64
	WorkerSeq            *int64
	Type                 string
	Data                 []byte
}

// Aged is a task that may be old enough to go.
type Aged struct {
	Seq, CreatedAt int64
	ID, ContextID  string
	State          bloom.TaskState // Status and UpdatedAt

	// Read for those that are locked.
	First, Last                         int64 // numbers in its stream; 0 when there is none
	Leases, Results, Artifacts, Content int64 // how many there are
	Kept                                int64 // up to which event its stream lies in transcripts
}

// AgedAudit is an entry of the audit that may be old enough to go.
type AgedAudit struct {
	Seq, At int64
	Keep    bool // of a task that has not ended, the last of all, or not chained
	Only    bool // it is in no file of the export
}

// AgedContext is a context that may not have been used for long: its id, LastUsedAt,
// UpdatedAt and Unfinished are read.
type AgedContext struct {
	Seq int64
	bloom.Context
}

// Changes is what a transaction writes. Tasks and leases that are to be updated are
// locked.
type Changes struct {
	NewTasks  []*Task
	Tasks     []*Task
	NewLeases []*Lease
	Leases    []*Lease
	Outcomes  []*Outcome
	Events    []Event
	Audits    []bloom.Audit
	Workers   []*lifecycle.KnownWorker // new ones too
	Settings  map[string]string
	Contexts  map[string]*ContextChange
	Scripts   map[string]*bloom.Transcript // of contexts; nil: it is dropped
	Forgotten []string                     // contexts; they are dropped
	Filled    *int64                       // tasks from this number on are in their contexts
	APIKeys   []*bloom.StoredKey           // new ones too
	Sessions  []*bloom.StoredSession       // new ones too
	Counts    Counts
	Series    Series
	Gauge     *Gauge
	Moves     []Move
	Searched  []Searched
	Files     []NewArtifact // besides those of outcomes
	Kept      []*Kept       // one a task
	Logs      []bloom.WorkerLogs
	Removal   Removal
	Links     []Link // entries that are chained now
	Head      *bloom.ChainHead
	Export    *bloom.AuditExport
	Now       int64

	// Sealed: the database has chained Audits with the commit.
	Sealed bool
}

// Empty reports whether there is nothing to write.
func (c *Changes) Empty() bool {
	return len(c.NewTasks)+len(c.Tasks)+len(c.NewLeases)+len(c.Leases)+len(c.Outcomes)+len(c.Events)+len(c.Audits)+len(c.Workers)+len(c.Settings)+len(c.Contexts)+
		len(c.Moves)+len(c.APIKeys)+len(c.Sessions)+len(c.Scripts)+len(c.Forgotten)+len(c.Searched)+len(c.Files)+len(c.Kept)+len(c.Logs) == 0 &&
		c.Filled == nil && c.Gauge == nil && c.Head == nil && c.Export == nil && c.Removal.empty()
}

// NewArtifacts are those of outcomes, then the others.
func (c *Changes) NewArtifacts() []NewArtifact {
	all := make([]NewArtifact, 0, len(c.Outcomes)+len(c.Files))
	for _, o := range c.Outcomes {
		all = append(all, NewArtifact{o.Artifact, o.Displaced})
	}
	return append(all, c.Files...)
}

// Streams are the streams of which is new that they have ended, and those of which is
// new how far they lie in transcripts.
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
	Tasks    []*Aged         // with all that belongs to them; URLs of their contents are noted
	Streams  []*Aged         // whose events go, the tasks stay
	Events   map[int64]int64 // of tasks, by Seq: events numbered below
	Audit    []int64
	Contents []int64 // notes of removed contents
	// Forgotten are notes of contexts that were forgotten.
	Forgotten []int64
	URLs      []string // contents to be noted as removed
	Sessions  []string
	// SessionsOf are keys whose sessions go, SessionsBefore is the time, Unix
	// milliseconds, at which those that go have expired.
	SessionsOf     []string
	SessionsBefore int64
}

func (r *Removal) empty() bool {
	return len(r.Tasks)+len(r.Streams)+len(r.Events)+len(r.Audit)+len(r.Contents)+len(r.Forgotten)+len(r.URLs)+len(r.Sessions)+len(r.SessionsOf) == 0 && r.SessionsBefore == 0
}

// Counts is by how much a transaction changes what stats shows, in the order of
// CountColumns.
type Counts [9]int64

// CountColumns are the columns of the table counters: the statuses of tasks, then
// leases.
var CountColumns = []string{"queued", "leased", "running", "completed", "failed", "dead", "cancelled", "leases", "active"}

// Places of the counts of leases.
const (
	CountLeases = 7
	CountActive = 8
)

// Series is what a transaction adds to the present minute of the time series, in the
// order of SeriesColumns.
type Series [10]int64

// SeriesColumns are the summed columns of the table task_series.
var SeriesColumns = []string{"created", "started", "completed", "failed", "dead", "cancelled", "tokens", "tokens_in", "tokens_out", "cost"}

// Places in a Series.
const (
	seriesCreated = iota
	seriesStarted
	seriesCompleted
	seriesFailed
	seriesDead
	seriesCancelled
	seriesTokens
	seriesTokensIn
	seriesTokensOut
	seriesCost
)

// Minute is when the minute of a time begins, both in Unix milliseconds.
func Minute(at int64) int64 { return at - at%time.Minute.Milliseconds() }

// GaugeSlot is the slot of the rows with samples, where a database spreads the others.
const GaugeSlot = -1

// Gauge is a sample of the queue, and what is to be done about the series' past.
type Gauge struct {
	Queued, Running int64
	Wait            *int64 // of the oldest, milliseconds
	Fold            int64  // minutes before are folded into hours; the beginning of an hour
	Drop            int64  // all before goes
}
