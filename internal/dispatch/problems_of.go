package dispatch

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/bloom-runtime/bloom"
)

// counted is "1 task" or "n tasks", and "1000 or more tasks" where counting stopped.
func counted(n int64, more bool, one string) string {
	switch {
	case more:
		return fmt.Sprintf("%d or more %ss", n, one)
	case n == 1:
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}

// verb agrees with a count.
func verb(n int64, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

func gib(n uint64) string { return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30)) }

func day(ms int64) string { return time.UnixMilli(ms).UTC().Format(time.DateOnly) }

func clock(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02 15:04 UTC") }

// ofMachine is what is wrong with the server's own machine.
func (f *facts) ofMachine() (found []bloom.Problem) {
	if why := f.machine.WritesFail; why != "" {
		found = append(found, bloom.Problem{Code: bloom.ProblemWrites, Severity: bloom.SeverityError, Link: "/settings",
			Sentence: "The database does not take what is written", Action: why + ". What was acknowledged is safe; the server goes on by itself."})
	}
	if m := f.machine; m.DiskLow {
		p := bloom.Problem{Code: bloom.ProblemDisk, Severity: bloom.SeverityWarning, Link: "/settings", Free: m.FreeBytes,
			Sentence: "The server's disk is almost full: " + gib(m.FreeBytes) + " free", Action: "Make room, or let old tasks be removed: bloom retention --help says how."}
		if m.FreeBytes < diskVeryLow {
			p.Severity = bloom.SeverityError
		}
		found = append(found, p)
	}
	if m := f.machine; m.CertExpires > 0 && m.CertExpires-f.now < certNear.Milliseconds() {
		p := bloom.Problem{Code: bloom.ProblemCertificate, Severity: bloom.SeverityWarning, Link: "/settings", Until: m.CertExpires,
			Sentence: "The server's certificate expires on " + day(m.CertExpires), Action: "Replace its files; the server reads them again by itself. With --acme-domain, the log says why it was not renewed."}
		if m.Domain != "" {
			p.Names = []string{m.Domain}
		}
		if m.CertExpires <= f.now {
			p.Sentence = "The server's certificate expired on " + day(m.CertExpires)
		}
		if m.CertExpires-f.now < certVeryNear.Milliseconds() {
			p.Severity = bloom.SeverityError
		}
		found = append(found, p)
	}
	return found
}

// ofOthers is what is wrong with what the server talks to.
func (f *facts) ofOthers() (found []bloom.Problem) {
	if !f.blobs.Connected && f.blobs.Kind == bloom.BlobsLocal {
		found = append(found, bloom.Problem{Code: bloom.ProblemArtifacts, Severity: bloom.SeverityError, Link: "/settings",
			Sentence: "The folder of artifacts cannot be used", Action: "Outputs over 256 KiB and files are refused until it can. Make room, and let the server's user write the folder artifacts in its data folder."})
	} else if !f.blobs.Connected {
		found = append(found, bloom.Problem{Code: bloom.ProblemArtifacts, Severity: bloom.SeverityWarning, Link: "/settings",
			Sentence: "The object storage cannot be reached", Action: "Tasks go on; what they leave is kept elsewhere and uploaded later. Check the storage and its keys."})
	}
	if f.displaced > 0 {
		found = append(found, bloom.Problem{Code: bloom.ProblemArtifactsWait, Severity: bloom.SeverityWarning, Link: "/artifacts", Count: f.displaced, More: f.displaced == bloom.MaxWaiting,
			Sentence: counted(f.displaced, f.displaced == bloom.MaxWaiting, "upload") + " to the object storage " + verb(f.displaced, "is", "are") + " outstanding",
			Action:   "Artifacts and contexts are uploaded when the storage is back; bloom artifacts move does it at once."})
	}
	if f.membridge.ConsecutiveFailures >= membridgeFail {
		found = append(found, bloom.Problem{Code: bloom.ProblemMembridge, Severity: bloom.SeverityWarning, Link: "/membridge",
			Sentence: "Membridge cannot be reached", Action: "Tasks go on. Check its address and key in the settings."})
	}
	return found
}

// ofWorkers is what is wrong with the workers.
func (f *facts) ofWorkers() (found []bloom.Problem) {
	waiting := f.stats.Tasks.ByStatus[bloom.TaskQueued] > 0
	add := func(code string, severity bloom.Severity, names []string, sentence, action string) {
		found = append(found, bloom.Problem{Code: code, Severity: severity, Link: "/workers", Count: int64(len(names)), Names: bounded20(names), Sentence: sentence, Action: action})
	}
	names := func(fits func(bloom.Worker) bool) (names []string) {
		for _, w := range f.workers {
			if fits(w) {
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
		add(bloom.ProblemAllOffline, bloom.SeverityError, offline, "Every worker is offline", "Nothing runs. Start one of them, or look at when each was last heard of.")
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
			"Usually the state folder cannot be written because the disk is full: make room there, and the worker goes on by itself. Its log on the Workers page says more.")
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
			"They go on working. Upgrade them when it suits you.")
	}
	return found
}

// ofCredentials is what the model's provider limits or refuses.
func (f *facts) ofCredentials() (found []bloom.Problem) {
	if limited := f.limitedUntil(); len(limited) > 0 {
		names := slices.Sorted(maps.Keys(limited))
		until := slices.Max(slices.Collect(maps.Values(limited)))
		found = append(found, bloom.Problem{Code: bloom.ProblemLimited, Severity: bloom.SeverityWarning, Link: "/workers", Count: int64(len(names)), Names: bounded20(names), Until: until,
			Sentence: "The model's provider limits the credentials of " + some(names),
			Action:   "They take no tasks until " + clock(until) + ". Others go on; add a worker with another credential if that is too late."})
	}
	var names []string
	var last string
	n := int64(0)
	for _, t := range f.lately() {
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

// completedSince reports whether the worker of a failed task has completed another after
// it: what was wrong there has been put right.
func (f *facts) completedSince(t bloom.Task) bool {
	return t.WorkerID != nil && slices.ContainsFunc(f.completed, func(c bloom.Task) bool {
		return c.WorkerID != nil && *c.WorkerID == *t.WorkerID && c.UpdatedAt >= t.UpdatedAt
	})
}

// lately are the tasks that failed within a day.
func (f *facts) lately() (tasks []bloom.Task) {
	for _, t := range f.failed {
		if f.now-t.UpdatedAt < failedLately.Milliseconds() {
			tasks = append(tasks, t)
		}
	}
	return tasks
}

// waitCodes are the problems that reasons to wait come to. A missing one is explained in the
// workers, or is none.
var waitCodes = map[bloom.WaitReason]struct {
	code     string
	severity bloom.Severity
	now      bool // at once, not only after waitPatience
	sentence string
	action   string
}{
	bloom.WaitLabels:  {bloom.ProblemWaitLabels, bloom.SeverityError, true, "for a worker with the labels %s", "No online worker has these labels. Start a worker with them, or run the tasks again without."},
	bloom.WaitDrained: {bloom.ProblemWaitDrained, bloom.SeverityError, true, "for workers that are drained", "Undrain one on the Workers page."},
	bloom.WaitFull:    {bloom.ProblemWaitSlots, bloom.SeverityWarning, false, "for a free slot", "Every worker that fits is full. Add a worker or raise its concurrency."},
	bloom.WaitNothing: {bloom.ProblemWait, bloom.SeverityWarning, false, "although a worker could take them", "The workers that fit are online and have free slots, and do not ask for work. Look at their logs."},
}

// ofQueue is what waits for too long, and why.
func (f *facts) ofQueue() (found []bloom.Problem) {
	late := f.now - waitPatience.Milliseconds()
	groups := map[string]*bloom.Problem{}
	for _, d := range f.depths {
		w, stuck := noWorkerFor(d.Labels, f.workers)
		if !stuck {
			w.Reason = bloom.WaitNothing
		}
		is, known := waitCodes[w.Reason]
		if !known || !is.now && d.Since > late {
			continue
		}
		key := is.code
		if is.code == bloom.ProblemWaitLabels {
			key += strings.Join(d.Labels, "\x00")
		}
		p := groups[key]
		if p == nil {
			p = &bloom.Problem{Code: is.code, Severity: is.severity, Since: d.Since, Action: is.action, Link: "/tasks?status=queued"}
			if is.code == bloom.ProblemWaitLabels {
				p.Labels = d.Labels
			}
			groups[key] = p
		}
		p.Count, p.Since = p.Count+d.Tasks, min(p.Since, d.Since)
		p.More = p.More || d.Tasks >= problemTasks
	}
	for _, key := range slices.Sorted(maps.Keys(groups)) {
		p := groups[key]
		for _, is := range waitCodes {
			if is.code == p.Code {
				p.Sentence = counted(p.Count, p.More, "task") + " " + verb(p.Count, "waits ", "wait ") + strings.Replace(is.sentence, "%s", strings.Join(p.Labels, ", "), 1)
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

// ofEnded is what went wrong with tasks.
func (f *facts) ofEnded() (found []bloom.Problem) {
	if n := f.stats.Tasks.ByStatus[bloom.TaskDead]; n > 0 {
		causes := causesOf(f.dead)
		found = append(found, bloom.Problem{Code: bloom.ProblemDead, Severity: bloom.SeverityWarning, Link: "/tasks?status=dead", Count: n, Causes: causes,
			Sentence: counted(n, false, "task") + " " + verb(n, "is", "are") + " out of attempts" + because(causes), Action: "The lease of each one's last attempt expired: the worker was lost, or did not reach the server in time. Each one's page shows its attempts; requeue them when the cause is gone."})
	}
	lately := f.lately()
	more := len(f.failed) == problemPage && len(lately) == problemPage
	failed := slices.DeleteFunc(slices.Clone(lately), func(t bloom.Task) bool { return t.ErrorClass != nil && *t.ErrorClass == bloom.ClassAuth })
	if n := int64(len(failed)); n > 0 {
		causes := causesOf(failed)
		found = append(found, bloom.Problem{Code: bloom.ProblemFailed, Severity: bloom.SeverityWarning, Link: "/tasks?status=failed", Count: n, More: more, Causes: causes,
			Sentence: counted(n, more, "task") + " failed in the last 24 hours" + because(causes), Action: "Each one's page says why and what to do."})
	}
	return found
}

// causesOf groups tasks, the newest first, by why they failed, the most frequent first.
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

// because is what the causes add to a sentence.
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

// ofKeys are the keys that end soon.
func (f *facts) ofKeys() (found []bloom.Problem) {
	var names []string
	first := int64(0)
	for _, k := range f.keys {
		if k.RevokedAt == nil && k.ExpiresAt != nil && *k.ExpiresAt > f.now && *k.ExpiresAt-f.now < keyNear.Milliseconds() {
			names = append(names, k.Name)
			if first == 0 || *k.ExpiresAt < first {
				first = *k.ExpiresAt
			}
		}
	}
	if n := int64(len(names)); n > 0 {
		slices.Sort(names)
		found = append(found, bloom.Problem{Code: bloom.ProblemKeysExpire, Severity: bloom.SeverityWarning, Link: "/settings", Count: n, Names: bounded20(names), Until: first,
			Sentence: counted(n, false, "key") + " " + verb(n, "expires", "expire") + " soon: " + some(names) + ", the first on " + day(first), Action: "Create new ones and give them out before; see bloom keys create."})
	}
	return found
}
