package store

import (
	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/lifecycle"
	"github.com/bloom-runtime/bloom/internal/schema"
)

// Rows is what was loaded. In maps of pointers nil means that the row does not exist.
type Rows struct {
	Now            int64       // the database's time after locking, Unix milliseconds
	Busy           Set[string] // rows that another transaction has locked
	Tasks          map[string]*Task
	Active         map[string]string // lease ids by task, "" for none; the leases are in Leases
	Leases         map[string]*bloom.Lease
	Workers        map[string]*lifecycle.KnownWorker
	Ordered        map[string]Line
	Held           map[string][]Holding // by worker, in the order in which they were granted
	Queue          map[string]Line      // by label key; the tasks are in Tasks
	Sets           map[string][]LabelSet
	Views          map[string]*Task
	Texts          map[string]Text
	Keys           map[Key]*Keyed
	Homes          map[string]*Home
	ContextWorkers map[string]lifecycle.ContextWorkers // by task
	Outcomes       map[OutcomeKey]*Outcome
	Repeats        map[EventKey]bool
	Expired        map[string]bool
	Online         []bloom.Worker // nil: not read
	Due            *bool
	Numbers        []int64
	Contexts       map[string]*bloom.Context
	Transcripts    map[string]*bloom.Transcript
	Filled         *int64 // tasks with lower numbers were not backfilled yet
	Spent          map[string]Spent
	Old            map[string]*Aged
	OldAudit       map[int64]*AgedAudit
	APIKeys        map[string]*bloom.StoredKey
	Sessions       map[string]*bloom.StoredSession
	Places         map[string]*ContentPlace
	Files          map[FileKey]*bloom.Artifact
	FileCounts     map[OutcomeKey]int64
	Kept           map[string]int64
	Settings       map[string]*string
	Chain          *Chain             // nil: not loaded, or locked by another transaction
	Export         *bloom.AuditExport // nil: not loaded, or locked by another transaction
}

func newRows() *Rows {
	return &Rows{
		Busy: Set[string]{}, Tasks: map[string]*Task{}, Active: map[string]string{}, Leases: map[string]*bloom.Lease{},
		Workers: map[string]*lifecycle.KnownWorker{}, Ordered: map[string]Line{}, Held: map[string][]Holding{}, Queue: map[string]Line{},
		Sets: map[string][]LabelSet{}, Views: map[string]*Task{}, Texts: map[string]Text{}, Keys: map[Key]*Keyed{}, Homes: map[string]*Home{},
		ContextWorkers: map[string]lifecycle.ContextWorkers{}, Outcomes: map[OutcomeKey]*Outcome{}, Repeats: map[EventKey]bool{}, Expired: map[string]bool{},
		Spent: map[string]Spent{}, Contexts: map[string]*bloom.Context{}, Transcripts: map[string]*bloom.Transcript{},
		Old: map[string]*Aged{}, OldAudit: map[int64]*AgedAudit{},
		APIKeys: map[string]*bloom.StoredKey{}, Sessions: map[string]*bloom.StoredSession{}, Places: map[string]*ContentPlace{},
		Files: map[FileKey]*bloom.Artifact{}, FileCounts: map[OutcomeKey]int64{}, Kept: map[string]int64{}, Settings: map[string]*string{},
	}
}

// Task is a task with its row's other columns. Only a new task and one in Rows.Views
// have their prompt and hints.
type Task struct {
	bloom.Task
	Seq       int64      // its number; numbers grow with creation
	Gate      bloom.Gate // "" unless queued
	Preferred *string    // the worker that it is reserved for
	Until     int64      // of Preferred, Unix milliseconds
	LastEvent int64      // the number of its last event

	Was *Task // as loaded; nil for a new task

	// Only of a new task.
	Scope    *string // of its idempotency key
	BodyHash string
	Actor    string // who created it

	fresh   bool // it is new
	changed bool
}

// Text is a task's long texts.
type Text struct {
	Prompt string
	Hints  []string
}

// Line is the beginning of an ordered list of tasks.
type Line struct {
	Tasks []Place
	Cut   bool // there may be more
}

// Place is a task in a Line.
type Place struct {
	ID   string
	Seq  int64
	Open bool // queued, and its gate is not GateOrdered
}

// LabelSet is a set of labels that open tasks require.
type LabelSet struct {
	Key    string
	Labels []string
}

// Holding is an active lease and its task, as last committed. They are locked if they
// are also in Rows.Leases and Rows.Tasks.
type Holding struct {
	Lease bloom.Lease
	Task  *Task
}

// Key is an idempotency key.
type Key struct{ Scope, Key string }

// Keyed is the task that first used an idempotency key.
type Keyed struct{ TaskID, BodyHash string }

// Home is the worker that last held a context.
type Home struct {
	Worker  lifecycle.KnownWorker
	Waiting int // open tasks reserved for it
}

// OutcomeKey identifies an outcome.
type OutcomeKey struct {
	TaskID string
	Epoch  int64
}

// Outcome is a result and the rows written with it.
type Outcome struct {
	Result    bloom.Result
	Artifact  bloom.Artifact
	Displaced bool // of a new one: the artifact's content is not where it belongs and is moved later
	BodyHash  string
}

// ContentPlace is the URL of an artifact's content; nil: the content is in the row.
type ContentPlace struct{ URL *string }

// FileKey identifies a file of an attempt.
type FileKey struct {
	TaskID string
	Epoch  int64
	Path   string
}

// Globs parses a list that schema.ListJSON wrote; nil if it is empty.
func Globs(text string) []string {
	if text == "" || text == "[]" {
		return nil
	}
	return schema.ParseList(text)
}

// EventKey identifies a worker's event under its task's current lease.
type EventKey struct {
	TaskID string
	Seq    int64
}

// FirstOrdered is the first pending ordered task of a context. Closed: its gate is closed.
type FirstOrdered struct {
	Context, ID string
	Closed      bool
}

// Aged is a task that may be old enough to remove.
type Aged struct {
	Seq, CreatedAt int64
	ID, ContextID  string
	State          bloom.TaskState // Status and UpdatedAt

	// Only loaded for locked tasks.
	First, Last                         int64 // numbers of its first and last event; 0: it has none
	Leases, Results, Artifacts, Content int64 // how many it has
	Kept                                int64 // the last event that is in a transcript
}

// AgedAudit is an audit entry that may be old enough to remove.
type AgedAudit struct {
	Seq, At int64
	Keep    bool // its task has not ended, it is the last of all, or it is not chained
	Only    bool // it was not exported
}

// AgedContext is a context that may have been unused for long. Only its id,
// LastUsedAt, UpdatedAt and Unfinished are set.
type AgedContext struct {
	Seq int64
	bloom.Context
}
