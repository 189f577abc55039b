package problems

import (
	"cmp"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/bloom-runtime/bloom"
)

// text is how a problem is shown: {n} {names} {labels} {day} {time} {free} {causes} {why} are its
// parameters, and {is|are} is for one and for many.
type text struct{ link, sentence, action string }

var texts = map[string]text{
	CodeStorage:        {"/settings", "The storage does not answer", "Nothing can be read or written. Look at the server's log and its disk or database."},
	CodeWrites:         {"/settings", "The database refuses writes", "{why}. Acknowledged changes are safe, and the server recovers by itself."},
	CodeDisk:           {"/settings", "The server's disk is almost full: {free} free", "Free some space, or have old tasks removed: see bloom retention --help."},
	CodeCertificate:    {"/settings", "The server's certificate expires on {day}", "Replace its files; the server reloads them automatically. With --acme-domain, the log says why it was not renewed."},
	certificateExpired: {"/settings", "The server's certificate expired on {day}", "Replace its files; the server reloads them automatically. With --acme-domain, the log says why it was not renewed."},
	CodeArtifacts:      {"/settings", "The object storage cannot be reached", "Tasks keep running; the server keeps their artifacts and uploads them later. Check the storage and its keys."},
	artifactFolder:     {"/settings", "The folder of artifacts cannot be used", "Outputs over 256 KiB and files are refused until it can. Free some space, and make sure that the server's user can write to the folder artifacts in its data directory."},
	CodeArtifactsWait:  {"/artifacts", "{n} {upload|uploads} to the object storage {is|are} outstanding", "Artifacts and contexts are uploaded when the storage is reachable again, or at once with bloom artifacts move."},
	CodeMembridge:      {"/membridge", "Membridge cannot be reached", "Tasks keep running. Check its address and key in the settings."},
	CodeKeysExpire:     {"/settings", "{n} {key expires|keys expire} soon: {names}, the first on {day}", "Replace them before that; see bloom keys create."},
	CodeQuota:          {"/workers", "{n} {worker|workers} sent more events, uploads or releases than allowed: {names}", "The excess is refused until the quota refills. Look at what the worker does; if its key was stolen, revoke it."},
	CodeNoWorkers:      {"/workers", "There is no worker", "Tasks wait. Start one with bloom worker; the Workers page has the command."},
	CodeAllOffline:     {"/workers", "Every worker is offline", "Nothing runs. Start one of them, or see when each last reported."},
	CodeOffline:        {"/workers", "{n} {worker is|workers are} offline: {names}", "Their tasks go to others when their leases expire. Check the machine and its network."},
	CodeWorkerError:    {"/workers", "{n} {worker reports an error and takes|workers report an error and take} no tasks: {names}", "Its state folder cannot be written: the disk is full, or the folder is gone or not the worker's. Its log on the Workers page says which."},
	CodeNoClaude:       {"/workers", "{n} {worker|workers} cannot run claude: {names}", "Run bloom doctor there to see what is missing."},
	CodeDrained:        {"/workers", "Every online worker is drained", "No new task is taken. Undrain one: the Workers page says where each was drained."},
	CodeVersions:       {"/workers", "{n} {worker runs|workers run} another version than the server: {names}", "They keep working. Upgrade them when it suits you."},
	CodeLimited:        {"/workers", "The model's provider limits the credentials of {names}", "They take no tasks until {time}. Others keep working; add a worker with another credential if that is too late."},
	CodePaused:         {"/workers", "The credentials of {names} are refused or missing", "Their tasks wait. Sign in to claude there again or set its key, and restart the worker; otherwise it tries again by itself, less and less often."},
	CodeRefused:        {"", "The credentials of {names} were refused or are missing for {n} {task|tasks}", "Sign in to claude there again or set its key, then requeue. The task's page shows the provider's answer."},
	CodeWaitLabels:     {queuedTasks, "{n} {task waits|tasks wait} for a worker with {labels}", "No such worker is online. Start one, or run the tasks again without labels."},
	CodeWaitDrained:    {queuedTasks, "{n} {task waits|tasks wait} for workers that are drained", "Undrain one on the Workers page."},
	CodeWaitSlots:      {queuedTasks, "{n} {task waits|tasks wait} for a free slot", "Every worker that fits is full. Add a worker or raise its concurrency."},
	CodeWait:           {queuedTasks, "{n} {task waits|tasks wait} although a worker could take them", "The workers that fit are online and have free slots, and do not ask for work. Look at their logs."},
	CodeWaitOrder:      {queuedTasks, "{n} {task waits|tasks wait} for an earlier one of the same ordered context", "Cancel the earlier task if it is stuck."},
	CodeDelayed:        {queuedTasks, "{n} {task is|tasks are} delayed; the first starts at {time}", "Nothing: they were scheduled, or wait before another attempt."},
	CodeQueueFull:      {queuedTasks, "The queue is full: {n} {task waits|tasks wait}, as many as --max-queued allows", "New tasks are refused until workers have taken some. Add workers, or raise the limit."},
	CodeDead:           {"/tasks?status=dead", "{n} {task is|tasks are} out of attempts{causes}", "The lease of each one's last attempt expired: the worker was lost, or did not reach the server in time. Each one's page shows its attempts; requeue them when the cause is gone."},
	CodeFailed:         {"/tasks?status=failed", "{n} {task|tasks} failed in the last 24 hours{causes}", "Each one's page says why and what to do."},
}

const (
	queuedTasks        = "/tasks?status=queued"
	certificateExpired = "certificate_expired"
	artifactFolder     = "artifact_folder_unusable"
)

var parameter = regexp.MustCompile(`\{[^}]+\}`)

// render sets the link and the texts of a problem.
func render(p *bloom.Problem, now int64) {
	key := p.Code
	switch {
	case key == CodeCertificate && p.Until <= now:
		key = certificateExpired
	case key == CodeArtifacts && p.Severity == bloom.SeverityError:
		key = artifactFolder
	}
	t := texts[key]
	fill := func(template string) string {
		return parameter.ReplaceAllStringFunc(template, func(s string) string { return valueOf(p, s[1:len(s)-1]) })
	}
	p.Link, p.Sentence, p.Action = cmp.Or(p.Link, t.link), fill(t.sentence), fill(t.action)
}

func valueOf(p *bloom.Problem, name string) string {
	switch name {
	case "n":
		if p.More {
			return fmt.Sprintf("%d or more", p.Count)
		}
		return strconv.FormatInt(p.Count, 10)
	case "names":
		if len(p.Names) > 3 {
			return strings.Join(p.Names[:3], ", ") + " and others"
		}
		return strings.Join(p.Names, ", ")
	case "labels":
		return theLabels(p.Labels)
	case "day":
		return time.UnixMilli(p.Until).UTC().Format(time.DateOnly)
	case "time":
		return clock(p.Until)
	case "free":
		return fmt.Sprintf("%.1f GiB", float64(p.Free)/(1<<30))
	case "why":
		return p.Action
	case "causes":
		return because(p.Causes)
	}
	one, many, _ := strings.Cut(name, "|")
	if p.Count == 1 && !p.More {
		return one
	}
	return many
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

func theLabels(labels []string) string {
	if len(labels) == 1 {
		return "the label " + labels[0]
	}
	return "the labels " + strings.Join(labels, ", ")
}

func clock(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02 15:04 UTC") }
