package bloom

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// MinRetention is the shortest time for which ended work may be kept: a slip of
// the pen must not remove what somebody is looking at.
const MinRetention = time.Hour

// KeepForgotten is for how long it is known which contexts were forgotten. A worker
// that was away for longer is not told.
const KeepForgotten = 30 * 24 * time.Hour

// Keep says how long ended tasks, their events, the audit, and contexts that are not
// used are kept. 0: for ever.
type Keep struct {
	Tasks, Events, Audit, Contexts time.Duration
}

// Before is the same as times before which each must have ended to go, given the present
// time, in Unix milliseconds; 0, before everything, for what is kept for ever.
func (k Keep) Before(now int64) Before {
	ago := func(d time.Duration) int64 {
		if d <= 0 {
			return 0
		}
		return now - d.Milliseconds()
	}
	return Before{ago(k.Tasks), ago(k.Events), ago(k.Audit), ago(k.Contexts)}
}

// Before are the times, Unix milliseconds, before which things must have ended to go.
type Before struct {
	Tasks, Events, Audit, Contexts int64
}

// Who removes what has grown old, and how the audit names it.
const (
	ActorRetention      = "retention"
	EntityRetention     = "retention"
	ActionTasksRemoved  = "tasks_removed"
	ActionEventsRemoved = "events_removed"
	ActionAuditRemoved  = "audit_removed"
)

// RetentionStore removes what has grown old. Every call is one batch, small
// enough that nobody who leases or completes is held up by it, and is audited in
// its own transaction (ActionTasksRemoved and its like) when it removed
// something. What is to go is looked for in the order in which it was made, from
// RemoveRequest.After on, so that no index has to be kept for it by those who
// work; a call looks at a bounded number of entries.
//
// Nothing that a live task needs is touched: live are those that have not ended.
// The clock that decides is the store's.
type RetentionStore interface {
	// RemoveTasks removes tasks that ended before with their leases, results, artifacts
	// and events. An ended task whose lease is the last one of a context in which
	// another task lives stays: it tells which worker knows the context. Content
	// of artifacts in the blob store is only noted, see RemovedContent. A task
	// with very many events first loses them, in several batches.
	//
	// The audit of a removed task stays. To everybody else it is as if it had
	// never been: it is not found, and its id and idempotency key are free.
	RemoveTasks(ctx context.Context, r RemoveRequest) (Removed, error)
	// RemoveEvents removes the streams of such tasks and keeps the tasks.
	// The numbering of a stream goes on where it was should its task be requeued.
	RemoveEvents(ctx context.Context, r RemoveRequest) (Removed, error)
	// RemoveAudit removes audit entries that are older, except those of live
	// tasks. The newest entry always stays. The chain goes on: where an entry stays
	// whose predecessor goes, that one's hash stays, and the batch's own entry says up
	// to where it removed.
	RemoveAudit(ctx context.Context, r RemoveRequest) (Removed, error)
	// RemoveContexts forgets contexts, as ForgetContext does, in which no task is
	// unfinished and none came, ended or came back since. Each has its own entry in
	// the audit (ActionContextForgotten). Nothing is done while FillContexts has more.
	RemoveContexts(ctx context.Context, r RemoveRequest) (Removed, error)
	// RemoveForgotten drops which contexts were forgotten before. It is not audited.
	RemoveForgotten(ctx context.Context, r RemoveRequest) (Removed, error)

	// RemovedContent lists at most limit contents whose artifacts were removed,
	// numbered above after, for the caller to delete from the blob store. They are
	// noted in the transaction that removed the artifacts: a caller that dies
	// leaves them listed, and no artifact ever names content that is gone.
	RemovedContent(ctx context.Context, after int64, limit int) ([]RemovedContent, error)
	// ForgetContent drops contents that were deleted from that list.
	ForgetContent(ctx context.Context, seqs []int64) error
}

// RemoveRequest asks for one batch.
type RemoveRequest struct {
	OlderThan time.Duration
	After     int64 // the last answer's Next; 0 to begin
	Limit     int   // how many tasks, or entries of the audit, go at most; 0: DefaultRemoveBatch
	// Kept has RemoveEvents leave streams that do not lie in transcripts.
	Kept     bool
	Exported bool // of the audit only what is in a file of the export
}

// Bounds of a batch.
const (
	DefaultRemoveBatch = 50
	MaxRemoveBatch     = 500
	// MaxRemoveEvents is how many events go at most.
	MaxRemoveEvents = 2000
	// RemoveWindow is how many entries a batch looks at.
	RemoveWindow = 1000
)

// Batch is the request's limit within the bounds.
func (r RemoveRequest) Batch() int {
	if r.Limit <= 0 {
		return DefaultRemoveBatch
	}
	return min(r.Limit, MaxRemoveBatch)
}

// Before is the time before which a thing must have ended to go, given the
// store's present time, both in Unix milliseconds.
func (r RemoveRequest) Before(now int64) int64 { return now - r.OlderThan.Milliseconds() }

// Removed counts what a batch removed.
type Removed struct {
	Tasks     int64 `json:"tasks,omitempty"`
	Leases    int64 `json:"leases,omitempty"`
	Results   int64 `json:"results,omitempty"`
	Artifacts int64 `json:"artifacts,omitempty"`
	Contents  int64 `json:"contents,omitempty"` // of artifacts and contexts, noted for deletion from the blob store
	Events    int64 `json:"events,omitempty"`
	Audit     int64 `json:"audit,omitempty"`
	Contexts  int64 `json:"contexts,omitempty"`
	// UpTo is the highest Seq of an audit entry that was removed.
	UpTo int64 `json:"up_to,omitempty"`

	Next int64 `json:"-"` // where the next batch begins
	More bool  `json:"-"` // there may be more behind Next
}

// Add sums up what was removed; Next and More are those of the later batch.
func (r *Removed) Add(o Removed) {
	r.Tasks += o.Tasks
	r.Leases += o.Leases
	r.Results += o.Results
	r.Artifacts += o.Artifacts
	r.Contents += o.Contents
	r.Events += o.Events
	r.Audit += o.Audit
	r.Contexts += o.Contexts
	r.UpTo = max(r.UpTo, o.UpTo)
	r.Next, r.More = o.Next, o.More
}

// Total is how many rows were removed.
func (r Removed) Total() int64 {
	return r.Tasks + r.Leases + r.Results + r.Artifacts + r.Events + r.Audit + r.Contexts
}

// String lists what was removed: "3 tasks, 4 leases, 12 events".
func (r Removed) String() string {
	var parts []string
	for _, p := range []struct {
		n    int64
		what string
	}{
		{r.Tasks, "tasks"}, {r.Leases, "leases"}, {r.Results, "results"}, {r.Artifacts, "artifacts"}, {r.Events, "events"}, {r.Audit, "audit entries"},
		{r.Contexts, "contexts"},
	} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", p.n, p.what))
		}
	}
	if len(parts) == 0 {
		return "nothing"
	}
	return strings.Join(parts, ", ")
}

// RemovedContent is content in the blob store that no artifact names any more.
type RemovedContent struct {
	Seq int64
	URL string
}

// AuditCut is what the audit keeps of a removal: the counts, and before when a
// thing had to have ended to go. Who replays the audit knows by it that what
// ended earlier may be missing.
type AuditCut struct {
	Removed
	Before int64 `json:"before"` // Unix milliseconds
}
