package dispatch

import (
	"maps"
	"slices"

	"github.com/bloom-runtime/bloom"
)

// ofWorkers returns the problems of workers.
func (f *facts) ofWorkers() (found []bloom.Problem) {
	waiting := f.stats.Tasks.ByStatus[bloom.TaskQueued] > 0
	add := func(code string, severity bloom.Severity, names []string, sentence, action string) {
		found = append(found, bloom.Problem{Code: code, Severity: severity, Link: "/workers", Count: int64(len(names)), Names: bounded20(names), Sentence: sentence, Action: action})
	}
	names := func(match func(bloom.Worker) bool) (names []string) {
		for _, w := range f.workers {
			if match(w) {
				names = append(names, w.ID)
			}
		}
		return names
	}
	online := func(w bloom.Worker) bool { return w.Status == bloom.WorkerOnline }
	there := names(online)
	offline := names(func(w bloom.Worker) bool { return w.Status == bloom.WorkerOffline })
	switch {
	case len(f.workers) == 0 && waiting:
		add(bloom.ProblemNoWorkers, bloom.SeverityError, nil, "There is no worker", "Tasks wait. Start one with bloom worker; the Workers page has the command.")
	case len(f.workers) == 0:
	case len(offline) == len(f.workers):
		add(bloom.ProblemAllOffline, bloom.SeverityError, offline, "Every worker is offline", "Nothing runs. Start one of them, or see when each last reported.")
	case len(offline) > 0:
		n := int64(len(offline))
		add(bloom.ProblemOffline, bloom.SeverityWarning, offline, counted(n, false, "worker")+verb(n, " is", " are")+" offline: "+some(offline),
			"Their tasks go to others when their leases expire. Check the machine and its network.")
	}
	if inError := names(func(w bloom.Worker) bool { return w.Status == bloom.WorkerError }); len(inError) > 0 {
		severity := bloom.SeverityWarning
		if len(there) == 0 {
			severity = bloom.SeverityError
		}
		n := int64(len(inError))
		add(bloom.ProblemWorkerError, severity, inError, counted(n, false, "worker")+verb(n, " reports", " report")+" an error and"+verb(n, " takes", " take")+" no tasks: "+some(inError),
			"Its state folder cannot be written: the disk is full, or the folder is gone or not the worker's. Its log on the Workers page says which.")
	}
	if without := names(func(w bloom.Worker) bool { return online(w) && !w.Capabilities.ClaudeCLI }); len(without) > 0 {
		severity := bloom.SeverityWarning
		if len(without) == len(there) && waiting {
			severity = bloom.SeverityError
		}
		add(bloom.ProblemNoClaude, severity, without, counted(int64(len(without)), false, "worker")+" cannot run claude: "+some(without), "Run bloom doctor there to see what is missing.")
	}
	if drained := names(func(w bloom.Worker) bool { return online(w) && w.Draining }); len(there) > 0 && len(drained) == len(there) {
		severity := bloom.SeverityWarning
		if waiting {
			severity = bloom.SeverityError
		}
		add(bloom.ProblemDrained, severity, drained, "Every online worker is drained", "No new task is taken. Undrain one: the Workers page says where each was drained.")
	}
	if other := names(func(w bloom.Worker) bool {
		return online(w) && f.machine.Version != "" && w.AgentVersion != "" && w.AgentVersion != bloom.UnknownVersion && w.AgentVersion != f.machine.Version
	}); len(other) > 0 {
		n := int64(len(other))
		add(bloom.ProblemVersions, bloom.SeverityWarning, other, counted(n, false, "worker")+verb(n, " runs", " run")+" another version than the server ("+f.machine.Version+"): "+some(other),
			"They keep working. Upgrade them when it suits you.")
	}
	return found
}

// ofCredentials returns what the model provider limits or refuses.
func (f *facts) ofCredentials() (found []bloom.Problem) {
	if limited := f.pausedFor(bloom.ClassRateLimited); len(limited) > 0 {
		names := slices.Sorted(maps.Keys(limited))
		until := slices.Max(slices.Collect(maps.Values(limited)))
		found = append(found, bloom.Problem{Code: bloom.ProblemLimited, Severity: bloom.SeverityWarning, Link: "/workers", Count: int64(len(names)), Names: bounded20(names), Until: until,
			Sentence: "The model's provider limits the credentials of " + some(names),
			Action:   "They take no tasks until " + clock(until) + ". Others keep working; add a worker with another credential if that is too late."})
	}
	if paused := f.pausedFor(bloom.ClassAuth); len(paused) > 0 {
		names := slices.Sorted(maps.Keys(paused))
		found = append(found, bloom.Problem{Code: bloom.ProblemPaused, Severity: bloom.SeverityError, Link: "/workers", Count: int64(len(names)), Names: bounded20(names), Until: slices.Min(slices.Collect(maps.Values(paused))),
			Sentence: "The credentials of " + some(names) + " are refused or missing",
			Action:   "Their tasks wait. Sign in to claude there again or set its key, and restart the worker; otherwise it tries again by itself, less and less often."})
	}
	var names []string
	var last string
	n := int64(0)
	for _, t := range f.recent() {
		if refusedCredentials(t) && !f.completedSince(t) {
			if n++; last == "" {
				last = t.ID
			}
			if t.WorkerID != nil && !slices.Contains(names, *t.WorkerID) {
				names = append(names, *t.WorkerID)
			}
		}
	}
	if n > 0 {
		slices.Sort(names)
		found = append(found, bloom.Problem{Code: bloom.ProblemRefused, Severity: bloom.SeverityError, Link: "/tasks/" + last, Count: n, Names: bounded20(names),
			Sentence: "The credentials of " + some(names) + " were refused or are missing for " + counted(n, false, "task"),
			Action:   "Sign in to claude there again or set its key, then requeue. The task's page shows the provider's answer."})
	}
	return found
}

func refusedCredentials(t bloom.Task) bool {
	return t.ErrorClass != nil && *t.ErrorClass == bloom.ClassAuth
}

// completedSince reports whether the worker of a failed task has since completed
// another one, so that its problem is solved.
func (f *facts) completedSince(t bloom.Task) bool {
	return t.WorkerID != nil && slices.ContainsFunc(f.completed, func(c bloom.Task) bool {
		return c.WorkerID != nil && *c.WorkerID == *t.WorkerID && c.UpdatedAt >= t.UpdatedAt
	})
}

// recent returns the tasks that failed within a day.
func (f *facts) recent() (tasks []bloom.Task) {
	for _, t := range f.failed {
		if f.now-t.UpdatedAt < failedLately.Milliseconds() {
			tasks = append(tasks, t)
		}
	}
	return tasks
}

// pausedFor returns until when online workers are paused for a reason of the class, in Unix
// milliseconds.
func (f *facts) pausedFor(class bloom.ErrorClass) map[string]int64 {
	until := map[string]int64{}
	for _, w := range f.workers {
		if w.Status == bloom.WorkerOnline && w.Pause != nil && w.Pause.Class == class {
			until[w.ID] = w.Pause.Until
		}
	}
	return until
}
