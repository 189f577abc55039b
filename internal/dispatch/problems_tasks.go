package dispatch

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/bloom-runtime/bloom"
)

// waitCodes maps reasons for waiting to problems. Reasons that are missing are
// covered by the problems of workers, or are no problem.
var waitCodes = map[bloom.WaitReason]struct {
	code     string
	severity bloom.Severity
	now      bool // a problem at once, not only after waitPatience
	sentence string
	action   string
}{
	bloom.WaitLabels:  {bloom.ProblemWaitLabels, bloom.SeverityError, true, "for a worker with %s", "No such worker is online. Start one, or run the tasks again without labels."},
	bloom.WaitDrained: {bloom.ProblemWaitDrained, bloom.SeverityError, true, "for workers that are drained", "Undrain one on the Workers page."},
	bloom.WaitFull:    {bloom.ProblemWaitSlots, bloom.SeverityWarning, false, "for a free slot", "Every worker that fits is full. Add a worker or raise its concurrency."},
	bloom.WaitNothing: {bloom.ProblemWait, bloom.SeverityWarning, false, "although a worker could take them", "The workers that fit are online and have free slots, and do not ask for work. Look at their logs."},
}

// ofQueue returns the tasks that have waited too long, and why.
func (f *facts) ofQueue() (found []bloom.Problem) {
	late := f.now - waitPatience.Milliseconds()
	groups := map[string]*bloom.Problem{}
	for _, d := range f.depths {
		w, stuck := noWorkerFor(d.Labels, f.workers)
		if !stuck {
			w.Reason = bloom.WaitNothing
		}
		wait, known := waitCodes[w.Reason]
		if !known || !wait.now && d.Since > late {
			continue
		}
		key := wait.code
		if wait.code == bloom.ProblemWaitLabels {
			key += strings.Join(d.Labels, "\x00")
		}
		p := groups[key]
		if p == nil {
			p = &bloom.Problem{Code: wait.code, Severity: wait.severity, Since: d.Since, Action: wait.action, Link: "/tasks?status=queued"}
			if wait.code == bloom.ProblemWaitLabels {
				p.Labels = d.Labels
			}
			groups[key] = p
		}
		p.Count, p.Since = p.Count+d.Tasks, min(p.Since, d.Since)
		p.More = p.More || d.Tasks >= problemTasks
	}
	for _, key := range slices.Sorted(maps.Keys(groups)) {
		p := groups[key]
		for _, wait := range waitCodes {
			if wait.code == p.Code {
				p.Sentence = counted(p.Count, p.More, "task") + " " + verb(p.Count, "waits ", "wait ") + strings.Replace(wait.sentence, "%s", theLabels(p.Labels), 1)
			}
		}
		found = append(found, *p)
	}
	if f.ordered.Tasks > 0 && f.ordered.Since <= late {
		found = append(found, bloom.Problem{Code: bloom.ProblemWaitOrder, Severity: bloom.SeverityWarning, Link: "/tasks?status=queued", Count: f.ordered.Tasks, More: f.ordered.Tasks == problemTasks, Since: f.ordered.Since,
			Sentence: counted(f.ordered.Tasks, f.ordered.Tasks == problemTasks, "task") + " " + verb(f.ordered.Tasks, "waits", "wait") + " for an earlier one of the same ordered context",
			Action:   "Cancel the earlier task if it is stuck."})
	}
	if f.delayed.Tasks > 0 {
		found = append(found, bloom.Problem{Code: bloom.ProblemDelayed, Severity: bloom.SeverityInfo, Link: "/tasks?status=queued", Count: f.delayed.Tasks, More: f.delayed.Tasks == problemTasks, Until: f.delayed.Until,
			Sentence: counted(f.delayed.Tasks, f.delayed.Tasks == problemTasks, "task") + " " + verb(f.delayed.Tasks, "is", "are") + " delayed; the first starts at " + clock(f.delayed.Until),
			Action:   "Nothing: they were scheduled, or wait before another attempt."})
	}
	if queued := f.stats.Tasks.ByStatus[bloom.TaskQueued]; f.maxQueued > 0 && queued >= f.maxQueued {
		found = append(found, bloom.Problem{Code: bloom.ProblemQueueFull, Severity: bloom.SeverityError, Link: "/tasks?status=queued", Count: queued,
			Sentence: fmt.Sprintf("The queue is full: %d tasks wait, as many as --max-queued allows", queued), Action: "New tasks are refused until workers have taken some. Add workers, or raise the limit."})
	}
	return found
}

// ofEnded returns the problems of tasks that have ended.
func (f *facts) ofEnded() (found []bloom.Problem) {
	if n := f.stats.Tasks.ByStatus[bloom.TaskDead]; n > 0 {
		causes := causesOf(f.dead)
		found = append(found, bloom.Problem{Code: bloom.ProblemDead, Severity: bloom.SeverityWarning, Link: "/tasks?status=dead", Count: n, Causes: causes,
			Sentence: counted(n, false, "task") + " " + verb(n, "is", "are") + " out of attempts" + because(causes), Action: "The lease of each one's last attempt expired: the worker was lost, or did not reach the server in time. Each one's page shows its attempts; requeue them when the cause is gone."})
	}
	recent := f.recent()
	more := len(f.failed) == problemPage && len(recent) == problemPage
	failed := slices.DeleteFunc(slices.Clone(recent), func(t bloom.Task) bool { return t.ErrorClass != nil && *t.ErrorClass == bloom.ClassAuth })
	if n := int64(len(failed)); n > 0 {
		causes := causesOf(failed)
		found = append(found, bloom.Problem{Code: bloom.ProblemFailed, Severity: bloom.SeverityWarning, Link: "/tasks?status=failed", Count: n, More: more, Causes: causes,
			Sentence: counted(n, more, "task") + " failed in the last 24 hours" + because(causes), Action: "Each one's page says why and what to do."})
	}
	return found
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

// because returns the causes as the end of a sentence.
func because(causes []bloom.Cause) string {
	var of []string
	for _, c := range causes {
		if c.ErrorClass != "" {
			of = append(of, fmt.Sprintf("%s %d", c.ErrorClass, c.Count))
		}
	}
	if len(of) == 0 {
		return ""
	}
	return ": " + strings.Join(of, ", ")
}
