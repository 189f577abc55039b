package dispatch

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/bloom-runtime/bloom"
)

// Machine is what a server knows about itself, apart from its store.
type Machine struct {
	Version     string
	WritesFail  string // why the database refused the last write, as a sentence; "" if it did not
	FreeBytes   uint64 // on the disk of the data folder
	DiskLow     bool
	Domain      string // of the certificate
	CertExpires int64  // Unix milliseconds; 0: unknown, or there is none
}

const (
	problemsFor  = 2 * time.Second // how long the cached problems are used
	problemsWait = 5 * time.Second // how long finding them may take
	problemTasks = 1000
	problemSets  = 100 // label sets
	problemPage  = 100
)

// Thresholds from which something counts as a problem.
const (
	waitPatience  = time.Minute
	failedLately  = 24 * time.Hour
	certNear      = 14 * 24 * time.Hour
	certVeryNear  = 3 * 24 * time.Hour
	keyNear       = 7 * 24 * time.Hour
	diskVeryLow   = 100 << 20
	membridgeFail = 3 // failures in a row
)

// problems caches the problems last found. It is safe for concurrent use.
type problems struct {
	mu    sync.Mutex // held while they are being found
	found bloom.Problems
	at    time.Time
}

// Problems returns what is wrong with the installation, the worst first. It reads a
// bounded number of rows, at most every two seconds. An unavailable store is a
// problem, not an error. Only administrators see problems of keys.
func (s *Service) Problems(ctx context.Context, admin bool) (bloom.Problems, error) {
	s.problems.mu.Lock()
	defer s.problems.mu.Unlock()
	if now := s.clock.Now(); s.problems.at.IsZero() || now.Sub(s.problems.at).Abs() >= problemsFor {
		ctx, done := context.WithTimeout(context.WithoutCancel(ctx), problemsWait) // the result is for other callers, too
		defer done()
		f, err := s.facts(ctx, now)
		if err != nil {
			f.unavailable = true
			s.log.WarnContext(ctx, "finding problems failed: the store is unavailable", "error", err)
		}
		s.problems.found, s.problems.at = bloom.Problems{At: f.now, Problems: f.problems()}, now
	}
	found := s.problems.found
	if !admin {
		found.Problems = slices.DeleteFunc(slices.Clone(found.Problems), func(p bloom.Problem) bool { return p.Code == bloom.ProblemKeysExpire })
	}
	return found, nil
}

// facts are the data from which problems are derived.
type facts struct {
	now int64 // Unix milliseconds
	// unavailable: the store does not answer, so nothing below maxQueued is set.
	unavailable bool
	machine     Machine
	membridge   MembridgeState
	blobs       bloom.BlobState
	maxQueued   int64

	stats     bloom.Stats
	workers   []bloom.Worker
	depths    []bloom.QueueDepth
	ordered   bloom.HeldBack
	delayed   bloom.HeldBack
	failed    []bloom.Task
	completed []bloom.Task
	dead      []bloom.Task
	displaced int64    // artifacts and contexts
	overQuota []string // workers
	keys      []bloom.APIKey
}

func (s *Service) facts(ctx context.Context, now time.Time) (f facts, err error) {
	f = facts{now: bloom.Millis(now), membridge: s.MembridgeState(), blobs: s.Blobs(), maxQueued: s.full.all, overQuota: s.quotas.names(now)}
	if s.machine != nil {
		f.machine = s.machine()
	}
	page := bloom.Page{Limit: problemPage, TextBytes: 1}
	for _, read := range []func() error{
		func() (err error) { f.stats, err = s.store.Stats(ctx); return err },
		func() (err error) { f.workers, err = s.store.Workers(ctx); return err },
		func() (err error) { f.depths, err = s.store.QueueDepths(ctx, problemSets, problemTasks); return err },
		func() (err error) {
			f.ordered, err = s.store.HeldBack(ctx, bloom.GateOrdered, problemTasks)
			return err
		},
		func() (err error) {
			f.delayed, err = s.store.HeldBack(ctx, bloom.GateDelayed, problemTasks)
			return err
		},
		func() (err error) {
			f.failed, _, err = s.store.Tasks(ctx, bloom.TaskQuery{Status: bloom.TaskFailed, Page: page})
			return err
		},
		func() (err error) {
			if f.stats.Tasks.ByStatus[bloom.TaskDead] > 0 {
				f.dead, _, err = s.store.Tasks(ctx, bloom.TaskQuery{Status: bloom.TaskDead, Page: page})
			}
			return err
		},
		func() (err error) {
			if slices.ContainsFunc(f.failed, refusedCredentials) { // see completedSince
				f.completed, _, err = s.store.Tasks(ctx, bloom.TaskQuery{Status: bloom.TaskCompleted, Page: page})
			}
			return err
		},
		func() (err error) {
			f.displaced, err = s.WaitingContent(ctx)
			return err
		},
		func() (err error) {
			f.keys, _, err = s.store.Keys(ctx, bloom.Page{Limit: bloom.MaxPageSize})
			return err
		},
	} {
		if err := read(); err != nil {
			return f, err
		}
	}
	return f, nil
}

var severities = []bloom.Severity{bloom.SeverityError, bloom.SeverityWarning, bloom.SeverityInfo}

// problems derives the problems, the worst first.
func (f *facts) problems() []bloom.Problem {
	found := []bloom.Problem{}
	if f.unavailable {
		found = append(found, bloom.Problem{Code: bloom.ProblemStorage, Severity: bloom.SeverityError, Link: "/settings",
			Sentence: "The storage does not answer", Action: "Nothing can be read or written. Look at the server's log and its disk or database."})
	}
	found = append(found, f.ofMachine()...)
	found = append(found, f.ofQuotas()...)
	if !f.unavailable {
		for _, of := range []func() []bloom.Problem{f.ofWorkers, f.ofCredentials, f.ofQueue, f.ofEnded, f.ofKeys} {
			found = append(found, of()...)
		}
	}
	found = append(found, f.ofOthers()...)
	slices.SortStableFunc(found, func(a, b bloom.Problem) int {
		return cmp.Compare(slices.Index(severities, a.Severity), slices.Index(severities, b.Severity))
	})
	return found
}
