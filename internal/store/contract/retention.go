package contract

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// MinRetention is the shortest retention of ended work, so that a typo cannot remove what someone
// is looking at.
const MinRetention = time.Hour

// ForgottenRetention is how long forgotten contexts are listed for workers. A worker that is offline
// for longer misses them.
const ForgottenRetention = 30 * 24 * time.Hour

// Keep is how long ended tasks, their events, audit entries, and unused contexts are kept. 0 means
// forever.
type Keep struct {
	Tasks, Events, Audit, Contexts time.Duration
}

// Before returns the retention as cutoff times, given the current time in Unix milliseconds. 0,
// which precedes everything, means forever.
func (k Keep) Before(now int64) Before {
	ago := func(d time.Duration) int64 {
		if d <= 0 {
			return 0
		}
		return now - d.Milliseconds()
	}
	return Before{ago(k.Tasks), ago(k.Events), ago(k.Audit), ago(k.Contexts)}
}

// Before holds cutoff times in Unix milliseconds: what ended earlier may be removed.
type Before struct {
	Tasks, Events, Audit, Contexts int64
}

// RetentionStore removes old data. Each call is one batch, small enough not to delay leases and
// completions, and is audited in its own transaction (ActionTasksRemoved and so on) when it removed
// something. Batches walk in order of creation from RemoveRequest.After, so that hot paths need not
// maintain an index for it, and examine a bounded number of entries.
//
// Nothing that an unfinished ("live") task needs is removed. The store's clock decides.
type RetentionStore interface {
	// RemoveTasks removes tasks that ended before the cutoff with their leases, results, artifacts
	// and events. It keeps the task with the last lease of a context that has a live task, because
	// it records which worker knows the context. Content in the blob store is only listed, see
	// RemovedContent. A task with very many events loses its events first, over several batches.
	//
	// The audit of a removed task stays. Otherwise it is as if the task never existed: it is not
	// found, and its id and idempotency key are free.
	RemoveTasks(ctx context.Context, r RemoveRequest) (Removed, error)
	// RemoveEvents removes the streams of such tasks and keeps the tasks. The numbering of a stream
	// continues if its task is requeued.
	RemoveEvents(ctx context.Context, r RemoveRequest) (Removed, error)
	// RemoveAudit removes audit entries older than the cutoff, except those of live tasks and the
	// newest entry. The chain continues: the hash of a removed entry stays when its successor
	// stays, and the batch's own audit entry records up to where it removed.
	RemoveAudit(ctx context.Context, r RemoveRequest) (Removed, error)
	// RemoveContexts forgets contexts, as ForgetContext does, that have no unfinished task and saw
	// no task created, ended or requeued since the cutoff. Each gets its own audit entry
	// (ActionContextForgotten).
	RemoveContexts(ctx context.Context, r RemoveRequest) (Removed, error)
	// RemoveForgotten removes old entries from the list of forgotten contexts. It is not audited.
	RemoveForgotten(ctx context.Context, r RemoveRequest) (Removed, error)

	// RemovedContent lists at most limit contents of removed artifacts, numbered above after, for
	// the caller to delete from the blob store. They are listed in the transaction that removed the
	// artifacts, so a caller that crashes can continue, and no artifact ever names deleted content.
	RemovedContent(ctx context.Context, after int64, limit int) ([]RemovedContent, error)
	// ConfirmDeleted removes deleted contents from that list.
	ConfirmDeleted(ctx context.Context, seqs []int64) error
}

// RemoveRequest asks for one batch.
type RemoveRequest struct {
	OlderThan time.Duration
	After     int64 // the last answer's Next; 0 to begin
	Limit     int   // most tasks, or audit entries, to remove; 0: DefaultRemoveBatch
	// Archived makes RemoveEvents skip streams that are not completely in run logs.
	Archived bool
	Exported bool // remove only audit entries that were exported
}

// Bounds of a batch.
const (
	DefaultRemoveBatch = 50
	MaxRemoveBatch     = 500
	// MaxRemoveEvents is the most events that a batch removes.
	MaxRemoveEvents = 2000
	// RemoveWindow is how many entries a batch examines.
	RemoveWindow = 1000
)

// Batch returns the request's limit within its bounds.
func (r RemoveRequest) Batch() int {
	if r.Limit <= 0 {
		return DefaultRemoveBatch
	}
	return min(r.Limit, MaxRemoveBatch)
}

// Before returns the cutoff: what ended before it may be removed. now is the store's current time,
// both in Unix milliseconds.
func (r RemoveRequest) Before(now int64) int64 { return now - r.OlderThan.Milliseconds() }

// Removed counts what a batch removed.
type Removed struct {
	Tasks     int64 `json:"tasks,omitempty"`
	Leases    int64 `json:"leases,omitempty"`
	Results   int64 `json:"results,omitempty"`
	Artifacts int64 `json:"artifacts,omitempty"`
	Contents  int64 `json:"contents,omitempty"` // of artifacts and contexts, listed for deletion from the blob store
	Events    int64 `json:"events,omitempty"`
	Audit     int64 `json:"audit,omitempty"`
	Contexts  int64 `json:"contexts,omitempty"`
	// UpTo is the highest Seq of a removed audit entry.
	UpTo int64 `json:"up_to,omitempty"`

	Next int64 `json:"-"` // where the next batch starts
	More bool  `json:"-"` // there may be more after Next
}

// Add adds the counts of a later batch and takes its Next and More.
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

// Total returns the number of removed rows.
func (r Removed) Total() int64 {
	return r.Tasks + r.Leases + r.Results + r.Artifacts + r.Events + r.Audit + r.Contexts
}

// String returns, for example, "3 tasks, 4 leases, 12 events".
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

// RemovedContent is content in the blob store that no artifact refers to any more.
type RemovedContent struct {
	Seq int64
	URL string
}

// AuditCut is the data of the audit entry of a removal: the counts and the cutoff. A program that
// replays the audit uses it to know what may be missing.
type AuditCut struct {
	Removed
	Before int64 `json:"before"` // Unix milliseconds
}
