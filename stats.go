package bloom

// Stats are the counts of the overview.
type Stats struct {
	Tasks   TaskStats   `json:"tasks"`
	Leases  LeaseStats  `json:"leases"`
	Workers WorkerStats `json:"workers"`
}

// TaskStats counts tasks; ByStatus names only statuses that occur.
type TaskStats struct {
	Total    int64                `json:"total"`
	ByStatus map[TaskStatus]int64 `json:"by_status"`
}

// LeaseStats counts leases.
type LeaseStats struct {
	Total  int64 `json:"total"`
	Active int64 `json:"active"`
	Usage  Usage `json:"usage" doc:"What the active leases have used so far, as their workers last reported"`
}

// WorkerStats counts workers.
type WorkerStats struct {
	Total  int64 `json:"total"`
	Online int64 `json:"online"`
}
