package bloom

// WaitReason says why a queued task has not started.
type WaitReason string

// The reasons for a queued task to wait. When several apply, the one that is
// listed first is given.
const (
	WaitOrdered    WaitReason = "ordered"               // an earlier ordered task of its context has not ended
	WaitDelayed    WaitReason = "delayed"               // its run_at has not come
	WaitNoWorker   WaitReason = "no_worker_registered"  // there is no worker
	WaitNoneOnline WaitReason = "no_worker_online"      // every worker is offline
	WaitLabels     WaitReason = "no_worker_with_labels" // no online worker carries its labels
	WaitNoClaude   WaitReason = "no_worker_with_claude" // none of those can run claude
	WaitDrained    WaitReason = "workers_drained"       // all of those are drained
	WaitFull       WaitReason = "workers_full"          // all others of those run as much as they may
	WaitKept       WaitReason = "kept_for_worker"       // left for a moment to the worker that knows its context
	WaitNothing    WaitReason = "next_claim"            // nothing: a worker takes it with its next claim
)

// WaitingFor is why a queued task has not started: the reason, a sentence for a
// person, and the values in it. Values that do not belong to the reason are absent.
type WaitingFor struct {
	Reason   WaitReason `json:"reason" enum:"ordered,delayed,no_worker_registered,no_worker_online,no_worker_with_labels,no_worker_with_claude,workers_drained,workers_full,kept_for_worker,next_claim"`
	Sentence string     `json:"sentence" doc:"The reason for a person, in English"`
	TaskID   string     `json:"task_id,omitempty" doc:"ordered: the first task of its context that has not ended"`
	Until    int64      `json:"until,omitempty" doc:"delayed, kept_for_worker: until when, Unix milliseconds"`
	Labels   []string   `json:"labels,omitempty" nullable:"false" doc:"no_worker_with_labels: what it asks for"`
	WorkerID string     `json:"worker_id,omitempty" doc:"kept_for_worker: for whom"`
	Used     int        `json:"slots_used,omitempty" doc:"workers_full: slots in use on the workers that fit"`
	Slots    int        `json:"slots,omitempty" doc:"workers_full: slots of the workers that fit"`
}

// QueuePlace is what a store knows of a queued task's turn.
type QueuePlace struct {
	Gate      Gate   // empty when the task is not queued any more
	Before    string // the first ordered task of its context that has not ended and is earlier; empty: none
	Preferred string // the worker that others leave the task to; empty: none
	Until     int64  // of Preferred, Unix milliseconds
}

// Gate says why a queued task may not be claimed yet.
type Gate string

// The gates of a queued task.
const (
	GateOpen    Gate = "open"
	GateDelayed Gate = "delayed" // its run_at has not come
	GateOrdered Gate = "ordered" // an earlier ordered task of its context has not ended
)
