package bloom

// WaitReason is why a queued task has not started.
type WaitReason string

// The reasons why a queued task waits. When several apply, the first in this list is reported.
const (
	WaitOrdered    WaitReason = "ordered"               // an earlier ordered task of its context has not ended
	WaitSkipped    WaitReason = "skipped"               // its record could not be changed, so it is left out for a while
	WaitDelayed    WaitReason = "delayed"               // its run_at is in the future
	WaitNoWorker   WaitReason = "no_worker_registered"  // there is no worker
	WaitNoneOnline WaitReason = "no_worker_online"      // every worker is offline
	WaitLabels     WaitReason = "no_worker_with_labels" // no online worker carries its labels
	WaitNoClaude   WaitReason = "no_worker_with_claude" // none of these can run claude
	WaitDrained    WaitReason = "workers_drained"       // all of these are drained
	WaitPaused     WaitReason = "workers_paused"        // the provider refuses or limits the credentials of the others
	WaitFull       WaitReason = "workers_full"          // the others have no free slot
	WaitKept       WaitReason = "kept_for_worker"       // reserved for a moment for the worker that has its context
	WaitNoClaims   WaitReason = "no_worker_claims"      // those that fit are known only to membridge and do not claim tasks
	WaitNothing    WaitReason = "next_claim"            // nothing: the next claim takes it
)

// WaitingFor is why a queued task has not started: the reason, a sentence for people, and its
// parameters. Fields that do not apply to the reason are absent.
type WaitingFor struct {
	Reason   WaitReason `json:"reason" enum:"ordered,skipped,delayed,no_worker_registered,no_worker_online,no_worker_with_labels,no_worker_with_claude,workers_drained,workers_paused,workers_full,kept_for_worker,no_worker_claims,next_claim"`
	Sentence string     `json:"sentence" doc:"The reason for people, in English"`
	TaskID   string     `json:"task_id,omitempty" doc:"ordered: the first task of its context that has not ended"`
	Until    int64      `json:"until,omitempty" doc:"delayed, kept_for_worker: until when; workers_paused: when the first one takes tasks again; Unix milliseconds"`
	Labels   []string   `json:"labels,omitempty" nullable:"false" doc:"no_worker_with_labels: the labels it requires"`
	WorkerID string     `json:"worker_id,omitempty" doc:"kept_for_worker: for whom; workers_paused: the first one"`
	Used     int        `json:"slots_used,omitempty" doc:"workers_full: slots in use on the workers that fit"`
	Slots    int        `json:"slots,omitempty" doc:"workers_full: slots of the workers that fit"`
}

// QueuePlace is what the store knows about when a queued task can start.
type QueuePlace struct {
	Gate      Gate   // empty when the task is no longer queued
	Before    string // the earliest unfinished ordered task before it in its context; empty: none
	Preferred string // the worker that the task is reserved for; empty: none
	Until     int64  // of Preferred, Unix milliseconds
	Skipped   int64  // until when this server skips it because its row could not be changed, Unix milliseconds; 0: it does not
}

// Gate is whether a queued task may be claimed, and why not.
type Gate string

// The gates of a queued task.
const (
	GateOpen    Gate = "open"
	GateDelayed Gate = "delayed" // its run_at is in the future
	GateOrdered Gate = "ordered" // an earlier ordered task of its context has not ended
)
