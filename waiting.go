package bloom

// WaitReason is why a queued task has not started.
type WaitReason string

// WaitingFor is why a queued task has not started: the reason, a sentence for people, and its
// parameters. Fields that do not apply to the reason are absent.
type WaitingFor struct {
	Reason   WaitReason `json:"reason" enum:"approval,ordered,skipped,delayed,no_worker_registered,no_worker_online,no_worker_with_labels,no_worker_with_claude,workers_drained,workers_paused,workers_full,kept_for_worker,no_worker_claims,next_claim"`
	Sentence string     `json:"sentence" doc:"The reason for people, in English"`
	Approval string     `json:"approval_id,omitempty" doc:"approval: the request"`
	TaskID   string     `json:"task_id,omitempty" doc:"ordered: the first task of its context that has not ended"`
	Until    int64      `json:"until,omitempty" doc:"delayed, kept_for_worker: until when; workers_paused: when the first one takes tasks again; Unix milliseconds"`
	Labels   []string   `json:"labels,omitempty" nullable:"false" doc:"no_worker_with_labels: the labels it requires"`
	WorkerID string     `json:"worker_id,omitempty" doc:"kept_for_worker: for whom; workers_paused: the first one"`
	Used     int        `json:"slots_used,omitempty" doc:"workers_full: slots in use on the workers that fit"`
	Slots    int        `json:"slots,omitempty" doc:"workers_full: slots of the workers that fit"`
}
