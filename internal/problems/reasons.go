package problems

import "github.com/bloom-runtime/bloom"

// The reasons why a queued task waits. When several apply, the first in this list is reported.
const (
	WaitOrdered    bloom.WaitReason = "ordered"               // an earlier ordered task of its context has not ended
	WaitSkipped    bloom.WaitReason = "skipped"               // its record could not be changed, so it is left out for a while
	WaitDelayed    bloom.WaitReason = "delayed"               // its run_at is in the future
	WaitNoWorker   bloom.WaitReason = "no_worker_registered"  // there is no worker
	WaitNoneOnline bloom.WaitReason = "no_worker_online"      // every worker is offline
	WaitLabels     bloom.WaitReason = "no_worker_with_labels" // no online worker carries its labels
	WaitNoClaude   bloom.WaitReason = "no_worker_with_claude" // none of these can run claude
	WaitDrained    bloom.WaitReason = "workers_drained"       // all of these are drained
	WaitPaused     bloom.WaitReason = "workers_paused"        // the provider refuses or limits the credentials of the others
	WaitFull       bloom.WaitReason = "workers_full"          // the others have no free slot
	WaitKept       bloom.WaitReason = "kept_for_worker"       // reserved for a moment for the worker that has its context
	WaitNoClaims   bloom.WaitReason = "no_worker_claims"      // those that fit are known only to membridge and do not claim tasks
	WaitNothing    bloom.WaitReason = "next_claim"            // nothing: the next claim takes it
)
