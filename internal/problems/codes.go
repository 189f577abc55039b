package problems

// Codes of problems. Programs may branch on them; new ones may be added.
const (
	CodeStorage       = "storage_unavailable"
	CodeWrites        = "storage_refuses_writes"
	CodeDisk          = "disk_low"
	CodeNoWorkers     = "no_workers"
	CodeAllOffline    = "all_workers_offline"
	CodeOffline       = "workers_offline"
	CodeNoClaude      = "workers_without_claude"
	CodeWorkerError   = "workers_in_error"
	CodeDrained       = "workers_drained"
	CodeVersions      = "worker_versions_differ"
	CodeLimited       = "credentials_limited"
	CodeRefused       = "credentials_refused"
	CodePaused        = "workers_paused"
	CodeWaitLabels    = "tasks_wait_for_labels"
	CodeWaitDrained   = "tasks_wait_for_drained_workers"
	CodeWaitSlots     = "tasks_wait_for_slots"
	CodeWaitOrder     = "tasks_wait_in_order"
	CodeWait          = "tasks_wait"
	CodeDelayed       = "tasks_delayed"
	CodeDead          = "tasks_dead"
	CodeFailed        = "tasks_failed"
	CodeQueueFull     = "queue_full"
	CodeMembridge     = "membridge_unreachable"
	CodeArtifacts     = "artifact_storage_unavailable"
	CodeArtifactsWait = "artifacts_wait_for_storage"
	CodeCertificate   = "certificate_expires"
	CodeKeysExpire    = "keys_expire"
	CodeQuota         = "worker_quota"
)

// MaxNames is how many names a Problem has at most.
const MaxNames = 20
