package dispatch

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bloom-runtime/bloom"
)

// Machine is what a server knows of itself beside its store.
type Machine struct {
	Version     string
	WritesFail  string // why the database took the last write not, in a sentence; empty when it did
	FreeBytes   uint64 // of the data folder
	DiskLow     bool
	Domain      string // of the certificate
	CertExpires int64  // Unix milliseconds; 0: there is none, or it is not known
}

// Bounds of looking for problems: how long what was found is used, how much of each
// kind is looked at, and how long a look may take.
const (
	problemsFor  = 2 * time.Second
	problemsWait = 5 * time.Second
	problemTasks = 1000
	problemSets  = 100 // of labels
	problemPage  = 100
)

// When something becomes a problem.
const (
	waitPatience  = time.Minute
	failedLately  = 24 * time.Hour
	certNear      = 14 * 24 * time.Hour
	certVeryNear  = 3 * 24 * time.Hour
	keyNear       = 7 * 24 * time.Hour
	diskVeryLow   = 100 << 20
	membridgeFail = 3 // failures in a row
)

// problems is what was last found. It is safe for concurrent use.
type problems struct {
	mu    sync.Mutex // held while somebody looks
	found bloom.Problems
	at    time.Time
}

// Problems is what is wrong with the installation, the worst first. It reads what is
// bounded, and at most every two seconds, whoever asks. A store that does not answer
// is a problem, and no error. What is said of keys is for administrators.
func (s *Service) Problems(ctx context.Context, admin bool) (bloom.Problems, error) {
	s.problems.mu.Lock()
	defer s.problems.mu.Unlock()
	if now := s.clock.Now(); s.problems.at.IsZero() || now.Sub(s.problems.at).Abs() >= problemsFor {
		ctx, done := context.WithTimeout(context.WithoutCancel(ctx), problemsWait) // it is looked for others, too
		defer done()
		f, err := s.facts(ctx, now)
		if err != nil {
			f.away = true
			s.log.WarnContext(ctx, "the store does not answer what is wrong", "error", err)
		}
		s.problems.found, s.problems.at = bloom.Problems{At: f.now, Problems: f.problems()}, now
	}
	found := s.problems.found
	if !admin {
		found.Problems = slices.DeleteFunc(slices.Clone(found.Problems), func(p bloom.Problem) bool { return p.Code == bloom.ProblemKeysExpire })
	}
	return found, nil
}

// facts are what problems are found in.
type facts struct {
	now       int64 // Unix milliseconds
	away      bool  // the store does not answer: nothing below Blobs is known
	machine   Machine
	membridge MembridgeState
	blobs     bloom.BlobState
	maxQueued int64

	stats     bloom.Stats
	workers   []bloom.Worker
	depths    []bloom.QueueDepth
	ordered   bloom.HeldBack
	delayed   bloom.HeldBack
	failed    []bloom.Task
	completed []bloom.Task
	dead      []bloom.Task
	released  []bloom.Audit
	displaced int64 // artifacts and contexts
	keys      []bloom.APIKey
}

func (s *Service) facts(ctx context.Context, now time.Time) (f facts, err error) {
	f = facts{now: bloom.Millis(now), membridge: s.MembridgeState(), blobs: s.Blobs(), maxQueued: s.full.all}
	if s.machine != nil {
		f.machine = s.machine()
	}
	page := bloom.Page{Limit: problemPage, TextBytes: 1}
	for _, look := range []func() error{
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
			f.released, _, err = s.store.Audit(ctx, bloom.AuditQuery{Action: bloom.ActionTaskReleased, Page: page})
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
		if err := look(); err != nil {
			return f, err
		}
	}
	return f, nil
}

var severities = []bloom.Severity{bloom.SeverityError, bloom.SeverityWarning, bloom.SeverityInfo}

// problems are what the facts come to, the worst first.
func (f *facts) problems() []bloom.Problem {
	found := []bloom.Problem{}
	if f.away {
		found = append(found, bloom.Problem{Code: bloom.ProblemStorage, Severity: bloom.SeverityError, Link: "/settings",
			Sentence: "The storage does not answer", Action: "Nothing can be read or written. Look at the server's log and its disk or database."})
	}
	found = append(found, f.ofMachine()...)
	if !f.away {
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

// some are names as a sentence lists them.
func some(names []string) string {
	if len(names) > 3 {
		return strings.Join(names[:3], ", ") + " and others"
	}
	return strings.Join(names, ", ")
}

func bounded20(names []string) []string { return names[:min(len(names), bloom.MaxProblemNames)] }

// limitedUntil is until when each worker's credentials are limited, by what it released
// until later because of that, Unix milliseconds. A release has its reason in words
// alone, which for a limit are "rate_limited", "the model's provider rate-limits this worker"
// and the like.
func (f *facts) limitedUntil() map[string]int64 {
	until := map[string]int64{}
	for _, a := range f.released {
		var data struct {
			RunAt int64 `json:"run_at"`
		}
		_, reason, _ := strings.Cut(a.Detail, ": ")
		if json.Unmarshal(a.Data, &data) == nil && data.RunAt > f.now && strings.Contains(strings.ToLower(reason), "limit") {
			until[a.Actor] = max(until[a.Actor], data.RunAt)
		}
	}
	return until
}
