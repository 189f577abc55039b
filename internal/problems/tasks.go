package problems

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/bloom-runtime/bloom"
)

// waitProblems maps reasons for waiting to problems. Reasons that are missing are
// covered by the problems of workers, or are no problem.
var waitProblems = map[bloom.WaitReason]struct {
	code     string
	severity string
	now      bool // a problem at once, not only after waitPatience
}{
	WaitLabels:  {CodeWaitLabels, bloom.SeverityError, true},
	WaitDrained: {CodeWaitDrained, bloom.SeverityError, true},
	WaitFull:    {CodeWaitSlots, bloom.SeverityWarning, false},
	WaitNothing: {CodeWait, bloom.SeverityWarning, false},
}

// ofQueue finds the tasks that have waited too long, and why.
func (f *facts) ofQueue() {
	late := f.now - waitPatience.Milliseconds()
	groups := map[string]*bloom.Problem{}
	for _, d := range f.depths {
		w, stuck := NoWorker(d.Labels, f.workers)
		if !stuck {
			w.Reason = WaitNothing
		}
		wait, known := waitProblems[w.Reason]
		if !known || !wait.now && d.Since > late {
			continue
		}
		p := &bloom.Problem{Code: wait.code, Severity: wait.severity, Since: d.Since}
		if wait.code == CodeWaitLabels {
			p.Labels = d.Labels
		}
		key := p.Code + strings.Join(p.Labels, "\x00")
		if groups[key] == nil {
			groups[key] = p
		}
		p = groups[key]
		p.Count, p.Since, p.More = p.Count+d.Tasks, min(p.Since, d.Since), p.More || d.Tasks >= mostTasks
	}
	for _, key := range slices.Sorted(maps.Keys(groups)) {
		f.add(*groups[key])
	}
	if n := f.ordered.Tasks; n > 0 && f.ordered.Since <= late {
		f.add(bloom.Problem{Code: CodeWaitOrder, Severity: bloom.SeverityWarning, Count: n, More: n == mostTasks, Since: f.ordered.Since})
	}
	if n := f.delayed.Tasks; n > 0 {
		f.add(bloom.Problem{Code: CodeDelayed, Severity: bloom.SeverityInfo, Count: n, More: n == mostTasks, Until: f.delayed.Until})
	}
	if queued := f.stats.Tasks.ByStatus[bloom.TaskQueued]; f.server.MaxQueued > 0 && queued >= f.server.MaxQueued {
		f.add(bloom.Problem{Code: CodeQueueFull, Severity: bloom.SeverityError, Count: queued})
	}
}

// ofEnded finds the problems of tasks that have ended.
func (f *facts) ofEnded() {
	if n := f.stats.Tasks.ByStatus[bloom.TaskDead]; n > 0 {
		f.add(bloom.Problem{Code: CodeDead, Severity: bloom.SeverityWarning, Count: n, Causes: causesOf(f.dead)})
	}
	recent := f.recent()
	more := len(f.failed) == tasksPerPage && len(recent) == tasksPerPage
	if failed := slices.DeleteFunc(recent, refusedCredentials); len(failed) > 0 {
		f.add(bloom.Problem{Code: CodeFailed, Severity: bloom.SeverityWarning, Count: int64(len(failed)), More: more, Causes: causesOf(failed)})
	}
}

// recent returns the tasks that failed within a day.
func (f *facts) recent() []bloom.Task {
	return slices.DeleteFunc(slices.Clone(f.failed), func(t bloom.Task) bool { return f.now-t.UpdatedAt >= failedLately.Milliseconds() })
}

// causesOf groups tasks, given newest first, by error class, the most frequent first.
func causesOf(tasks []bloom.Task) (causes []bloom.Cause) {
	for _, t := range tasks {
		class := ""
		if t.ErrorClass != nil {
			class = *t.ErrorClass
		}
		i := slices.IndexFunc(causes, func(c bloom.Cause) bool { return c.ErrorClass == class })
		if i < 0 {
			causes, i = append(causes, bloom.Cause{ErrorClass: class, TaskID: t.ID}), len(causes)
		}
		causes[i].Count++
	}
	slices.SortStableFunc(causes, func(a, b bloom.Cause) int { return cmp.Compare(b.Count, a.Count) })
	return causes
}
