// Package problems finds what is wrong with an installation, and why a queued task has not started.
// A problem is a code with parameters; texts.go renders both into English.
package problems

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/content"
	"github.com/bloom-runtime/bloom/internal/store/contract"
	"github.com/bloom-runtime/bloom/internal/timing"
)

// Machine is what a server knows about itself, apart from its store.
type Machine struct {
	Version     string
	WritesFail  string // why the database refused the last write, as a sentence; "" if it did not
	FreeBytes   uint64 // on the disk of the data directory
	DiskLow     bool
	Domain      string // of the certificate
	CertExpires int64  // Unix milliseconds; 0: unknown, or there is none
}

// Server is what the problems of the server itself are derived from.
type Server struct {
	Machine
	MembridgeFailures int      // in a row
	MaxQueued         int64    // 0: no limit
	OverQuota         []string // workers
}

const (
	foundFor     = 2 * time.Second // how long the cached problems are used
	findTime     = 5 * time.Second // how long finding them may take
	mostTasks    = 1000
	mostSets     = 100 // label sets
	tasksPerPage = 100
)

// Thresholds from which something counts as a problem.
const (
	waitPatience  = time.Minute
	failedLately  = 24 * time.Hour
	certNear      = 14 * 24 * time.Hour
	certVeryNear  = 3 * 24 * time.Hour
	keyNear       = 7 * 24 * time.Hour
	membridgeFail = 3 // failures in a row
	// DiskVeryLow is less free space than the database needs, in bytes.
	DiskVeryLow = 100 << 20
)

// Finder finds problems, and caches the last ones. It is safe for concurrent use.
type Finder struct {
	store  contract.Store
	server func() Server
	bytes  *content.Store
	clock  timing.Clock
	log    *slog.Logger

	mu    sync.Mutex // held while they are being found
	found bloom.Problems
	at    time.Time
}

// New returns a Finder.
func New(store contract.Store, server func() Server, bytes *content.Store, clock timing.Clock, log *slog.Logger) *Finder {
	return &Finder{store: store, server: server, bytes: bytes, clock: clock, log: log}
}

// Find returns what is wrong with the installation, the worst first. It reads a bounded number of
// rows, at most every two seconds. An unavailable store is a problem, not an error. Only
// administrators see problems of keys.
func (r *Finder) Find(ctx context.Context, admin bool) bloom.Problems {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := r.clock.Now(); r.at.IsZero() || now.Sub(r.at).Abs() >= foundFor {
		ctx, done := context.WithTimeout(context.WithoutCancel(ctx), findTime) // the result is for other callers, too
		defer done()
		f := facts{now: timing.Millis(now), server: r.server()}
		f.ofServer(r.bytes.State())
		if err := f.read(ctx, r); err == nil {
			f.ofWorkers()
			f.ofCredentials()
			f.ofQueue()
			f.ofEnded()
			f.ofKeys()
		} else {
			f.add(bloom.Problem{Code: CodeStorage, Severity: bloom.SeverityError})
			r.log.WarnContext(ctx, "finding problems failed: the store is unavailable", "error", err)
		}
		slices.SortStableFunc(f.found, func(a, b bloom.Problem) int {
			return cmp.Compare(slices.Index(severities, a.Severity), slices.Index(severities, b.Severity))
		})
		r.found, r.at = bloom.Problems{At: f.now, Problems: append([]bloom.Problem{}, f.found...)}, now
	}
	found := r.found
	if !admin {
		found.Problems = slices.DeleteFunc(slices.Clone(found.Problems), func(p bloom.Problem) bool { return p.Code == CodeKeysExpire })
	}
	return found
}

// facts are the data from which problems are derived, and those found.
type facts struct {
	now    int64 // Unix milliseconds
	server Server
	found  []bloom.Problem

	stats     bloom.Stats
	workers   []bloom.Worker
	depths    []contract.QueueDepth
	ordered   contract.HeldBack
	delayed   contract.HeldBack
	failed    []bloom.Task
	completed []bloom.Task
	dead      []bloom.Task
	displaced int64 // artifacts and contexts
	keys      []bloom.APIKey
}

func (f *facts) read(ctx context.Context, r *Finder) error {
	var errs [10]error
	tasks := func(status bloom.TaskStatus) (list []bloom.Task, err error) {
		list, _, err = r.store.Tasks(ctx, bloom.TaskQuery{Status: status, Page: bloom.Page{Limit: tasksPerPage, TextBytes: 1}})
		return list, err
	}
	f.stats, errs[0] = r.store.Stats(ctx)
	f.workers, errs[1] = r.store.Workers(ctx)
	f.depths, errs[2] = r.store.QueueDepths(ctx, mostSets, mostTasks)
	f.ordered, errs[3] = r.store.HeldBack(ctx, contract.GateOrdered, mostTasks)
	f.delayed, errs[4] = r.store.HeldBack(ctx, contract.GateDelayed, mostTasks)
	f.failed, errs[5] = tasks(bloom.TaskFailed)
	if f.stats.Tasks.ByStatus[bloom.TaskDead] > 0 {
		f.dead, errs[6] = tasks(bloom.TaskDead)
	}
	if slices.ContainsFunc(f.failed, refusedCredentials) { // see completedSince
		f.completed, errs[7] = tasks(bloom.TaskCompleted)
	}
	f.displaced, errs[8] = r.bytes.Waiting(ctx)
	f.keys, _, errs[9] = r.store.Keys(ctx, bloom.Page{Limit: bloom.MaxPageSize})
	return cmp.Or(errs[:]...)
}

var severities = []string{bloom.SeverityError, bloom.SeverityWarning, bloom.SeverityInfo}

// add adds a problem with its texts.
func (f *facts) add(p bloom.Problem) {
	p.Names = p.Names[:min(len(p.Names), MaxNames)]
	render(&p, f.now)
	f.found = append(f.found, p)
}

// named adds a problem of the things named, if there are any.
func (f *facts) named(severity string, code string, names []string) {
	if len(names) > 0 {
		f.add(bloom.Problem{Code: code, Severity: severity, Count: int64(len(names)), Names: names})
	}
}

// severe returns SeverityError if work stops, else SeverityWarning.
func severe(stops bool) string {
	if stops {
		return bloom.SeverityError
	}
	return bloom.SeverityWarning
}
