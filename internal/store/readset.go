package store

// Set is a set of values.
type Set[K comparable] map[K]struct{}

// Add adds values to the set.
func (s *Set[K]) Add(keys ...K) {
	if *s == nil {
		*s = make(Set[K], len(keys))
	}
	for _, k := range keys {
		(*s)[k] = struct{}{}
	}
}

// List returns the set's values in any order.
func (s Set[K]) List() []K {
	keys := make([]K, 0, len(s))
	for k := range s {
		keys = append(keys, k)
	}
	return keys
}

// ReadSet names the rows to load. A locked row stays unchanged until the transaction
// ends. To write a task, its leases, results or events, lock the task; to give work
// to a worker, lock the worker; to start or end ordered tasks, lock their context.
type ReadSet struct {
	Tasks          Set[string]     // by id; locked
	Active         Set[string]     // tasks: their active leases; locked
	Leases         Set[string]     // by id; locked
	Workers        Set[string]     // by name, with the number of their leases; locked
	Ordered        map[string]int  // contexts: how many of their pending ordered tasks, the first; the context is locked
	Held           map[string]bool // workers: their active leases; true: locked, but for those that others have locked
	Queue          map[string]int  // label keys: how many open tasks, the first; locked, skipping those that others have locked
	Claimers       Set[string]     // the workers for which Queue is read: tasks reserved for another worker are excluded
	Sets           map[string]int  // label keys: how many label sets of the queue after the key, at most
	Views          Set[string]     // tasks by id, with their texts; not locked
	Texts          Set[string]     // tasks: prompt and hints, which never change
	Keys           Set[Key]        // idempotency keys
	Homes          Set[string]     // contexts: the worker that last held them
	ContextWorkers Set[string]     // tasks: the workers that have worked on their contexts
	Outcomes       Set[OutcomeKey] // stored outcomes
	Repeats        Set[EventKey]   // workers' events that may be stored already
	Expired        Set[string]     // leases by id: whether they were reaped
	Online         bool            // all workers that are online
	Due            bool            // whether delayed tasks are due
	Numbers        int             // numbers for new tasks
	Contexts       Set[string]     // by id; locked
	Transcripts    Set[string]     // transcripts of contexts; locked
	Filled         bool            // how far the backfill of contexts has come
	Spent          Set[string]     // tasks: tokens and cost of their attempts
	Old            Set[string]     // tasks that may be removed; locked, skipping those that others have locked
	OldAudit       Set[int64]      // audit entries that may be removed
	APIKeys        Set[string]     // by id; locked
	Sessions       Set[string]     // by id; locked
	Places         Set[string]     // artifacts by id: the URLs of their content; locked
	Files          Set[FileKey]    // files of attempts
	FileCounts     Set[OutcomeKey] // attempts: how many files they have
	Kept           Set[string]     // tasks: the last event that is in a transcript
	Unsealed       int             // the head of the audit's chain and that many entries to chain next; locked
	Settings       Set[string]     // by name; locked
	Export         bool            // how far the audit was exported; locked
}

// Empty reports whether the read set names nothing.
func (r *ReadSet) Empty() bool {
	return len(r.Tasks)+len(r.Active)+len(r.Leases)+len(r.Workers)+len(r.Ordered)+len(r.Held)+len(r.Queue)+len(r.Sets)+len(r.Views)+len(r.Texts)+
		len(r.Keys)+len(r.Homes)+len(r.ContextWorkers)+len(r.Outcomes)+len(r.Repeats)+len(r.Expired)+len(r.Spent)+len(r.Contexts)+len(r.Transcripts)+len(r.Old)+len(r.OldAudit)+len(r.Places)+len(r.APIKeys)+len(r.Sessions)+len(r.Files)+len(r.FileCounts)+len(r.Kept)+len(r.Settings)+r.Numbers+r.Unsealed == 0 &&
		!r.Export && !r.Online && !r.Due && !r.Filled
}

// atLeast raises m[k] to n.
func atLeast[K comparable](m *map[K]int, k K, n int) {
	if *m == nil {
		*m = map[K]int{}
	}
	(*m)[k] = max((*m)[k], n)
}
