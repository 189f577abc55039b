package problems

import (
	"maps"
	"slices"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

// ofWorkers finds the problems of workers.
func (f *facts) ofWorkers() {
	waiting := f.stats.Tasks.ByStatus[bloom.TaskQueued] > 0
	names := func(match func(bloom.Worker) bool) (names []string) {
		for _, w := range f.workers {
			if match(w) {
				names = append(names, w.ID)
			}
		}
		return names
	}
	online := func(w bloom.Worker) bool { return w.Status == bloom.WorkerOnline }
	there := len(names(online))
	offline := names(func(w bloom.Worker) bool { return w.Status == bloom.WorkerOffline })
	switch {
	case len(f.workers) == 0 && waiting:
		f.add(bloom.Problem{Code: CodeNoWorkers, Severity: bloom.SeverityError})
	case len(offline) == len(f.workers):
		f.named(bloom.SeverityError, CodeAllOffline, offline)
	default:
		f.named(bloom.SeverityWarning, CodeOffline, offline)
	}
	f.named(severe(there == 0), CodeWorkerError, names(func(w bloom.Worker) bool { return w.Status == bloom.WorkerError }))
	without := names(func(w bloom.Worker) bool { return online(w) && !w.Capabilities.ClaudeCLI })
	f.named(severe(len(without) == there && waiting), CodeNoClaude, without)
	if drained := names(func(w bloom.Worker) bool { return online(w) && w.Draining }); len(drained) == there {
		f.named(severe(waiting), CodeDrained, drained)
	}
	f.named(bloom.SeverityWarning, CodeVersions, names(func(w bloom.Worker) bool {
		return online(w) && f.server.Version != "" && w.AgentVersion != "" && w.AgentVersion != contract.UnknownVersion && w.AgentVersion != f.server.Version
	}))
}

// ofCredentials finds what the model provider limits or refuses.
func (f *facts) ofCredentials() {
	limited, limits := f.pausedFor(bloom.ClassRateLimited)
	if len(limited) > 0 {
		f.add(bloom.Problem{Code: CodeLimited, Severity: bloom.SeverityWarning, Count: int64(len(limited)), Names: limited, Until: slices.Max(limits)})
	}
	paused, pauses := f.pausedFor(bloom.ClassAuth)
	if len(paused) > 0 {
		f.add(bloom.Problem{Code: CodePaused, Severity: bloom.SeverityError, Count: int64(len(paused)), Names: paused, Until: slices.Min(pauses)})
	}
	refused := bloom.Problem{Code: CodeRefused, Severity: bloom.SeverityError}
	names := map[string]bool{}
	for _, t := range f.recent() {
		if !refusedCredentials(t) || f.completedSince(t) {
			continue
		}
		if refused.Count++; refused.Link == "" {
			refused.Link = "/tasks/" + t.ID
		}
		if t.WorkerID != nil {
			names[*t.WorkerID] = true
		}
	}
	if refused.Names = slices.Sorted(maps.Keys(names)); refused.Count > 0 {
		f.add(refused)
	}
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

// pausedFor returns the online workers that are paused for a reason of the class, and until when, in
// Unix milliseconds.
func (f *facts) pausedFor(class bloom.ErrorClass) (names []string, until []int64) {
	for _, w := range f.workers {
		if w.Status == bloom.WorkerOnline && w.Pause != nil && w.Pause.Class == class {
			names, until = append(names, w.ID), append(until, w.Pause.Until)
		}
	}
	slices.Sort(names)
	return names, until
}
