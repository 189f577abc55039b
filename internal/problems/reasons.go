package problems

import "github.com/bloom-runtime/bloom"

// The reasons why a queued task waits. When several apply, the first in this list is reported.
const (
	WaitApproval   bloom.WaitReason = "approval"              // a person must decide about what its run asked
	WaitOrdered    bloom.WaitReason = "ordered"               // an earlier task of its ordered context has not ended
	WaitSkipped    bloom.WaitReason = "skipped"               // its record could not be changed; the server tries again within a minute, and its log says why
	WaitDelayed    bloom.WaitReason = "delayed"               // its start time, run_at, is in the future
	WaitNoWorker   bloom.WaitReason = "no_worker_registered"  // there is no worker
	WaitNoneOnline bloom.WaitReason = "no_worker_online"      // every worker is offline
	WaitLabels     bloom.WaitReason = "no_worker_with_labels" // no online worker has its labels
	WaitNoClaude   bloom.WaitReason = "no_worker_with_claude" // no online worker with its labels can run claude
	WaitDrained    bloom.WaitReason = "workers_drained"       // every worker that fits is drained
	WaitPaused     bloom.WaitReason = "workers_paused"        // the provider refuses or limits the credentials of every worker that fits
	WaitFull       bloom.WaitReason = "workers_full"          // every worker that fits is full
	WaitKept       bloom.WaitReason = "kept_for_worker"       // it is reserved for a moment for the worker that has its context
	WaitNoClaims   bloom.WaitReason = "no_worker_claims"      // the workers that fit are known only to membridge and claim no tasks
	WaitNothing    bloom.WaitReason = "next_claim"            // nothing; a worker takes it with its next claim
)
