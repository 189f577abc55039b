package claude

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/bloom-runtime/bloom/internal/durable"
)

// sessions stores which claude session belongs to which context, in one small file each.
// It also tracks which contexts have running tasks, because two runs must not resume one
// session at the same time.
type sessions struct {
	dir string

	mu    sync.Mutex
	busy  map[string]int // number of runs by context; forgetting while it is being forgotten
	freed chan struct{}  // closed when a context becomes free
}

// forgetting marks a context that is being forgotten.
const forgetting = -1

// savedSession is the content of a context's file.
type savedSession struct {
	ContextID string `json:"context_id"`
	SessionID string `json:"session_id"`
	// Workdir is where the session began; claude can resume it only there.
	Workdir   string `json:"workdir"`
	UpdatedAt int64  `json:"updated_at"` // Unix milliseconds

	// Movable means that the server stores the context's transcript. Base is the stored
	// version before the last turn that ended here, Before the version here before that
	// turn, and Next the one after it; nil means none. Pushed is whether Next was uploaded,
	// and Parts the number of uploaded parts. LeaseID is the lease of the turn. It is
	// removed if the turn could not be uploaded, but its outcome was accepted. TaskID is set if
	// Next is an unfinished turn, which only that task's next attempt continues.
	Movable bool               `json:"movable,omitempty"`
	Base    *transcriptVersion `json:"base,omitempty"`
	Before  *transcriptVersion `json:"before,omitempty"`
	Next    *transcriptVersion `json:"next,omitempty"`
	Pushed  bool               `json:"pushed,omitempty"`
	Parts   int                `json:"parts,omitempty"`
	LeaseID string             `json:"lease_id,omitempty"`
	TaskID  string             `json:"task_id,omitempty"`
}

// current returns the local version of the transcript that counts for a task while the server
// has the stored one; nil if there is none.
func (s savedSession) current(stored *transcriptVersion, taskID string) *transcriptVersion {
	switch {
	case same(s.Next, stored):
		return s.Next
	case !same(s.Base, stored):
		return nil
	case s.Pushed || s.LeaseID != "" || s.TaskID != "" && s.TaskID != taskID: // the last turn was not completed
		return s.Before
	}
	return s.Next
}

func openSessions(stateDir string) (*sessions, error) {
	dir := filepath.Join(stateDir, "sessions")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("session folder: %w", err)
	}
	return &sessions{dir: dir, busy: map[string]int{}, freed: make(chan struct{})}, nil
}

// acquire registers a run of the context, and reports whether it is the only one. It waits
// while the context is being forgotten, and fails only when ctx ends.
func (s *sessions) acquire(ctx context.Context, contextID string) (exclusive bool, release func(), err error) {
	release, err = s.wait(ctx, func() bool {
		if s.busy[contextID] == forgetting {
			return false
		}
		s.busy[contextID]++
		exclusive = s.busy[contextID] == 1
		return true
	}, func() { s.busy[contextID]-- }, contextID)
	return exclusive, release, err
}

// reserve marks the context as being forgotten, unless one of its tasks is running.
func (s *sessions) reserve(contextID string) (release func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy[contextID] != 0 {
		return nil, false
	}
	s.busy[contextID] = forgetting
	return s.releaser(contextID, func() { s.busy[contextID] = 0 }), true
}

// await is like reserve, but waits until none of the context's tasks is running.
func (s *sessions) await(ctx context.Context, contextID string) (release func(), err error) {
	return s.wait(ctx, func() bool {
		if s.busy[contextID] != 0 {
			return false
		}
		s.busy[contextID] = forgetting
		return true
	}, func() { s.busy[contextID] = 0 }, contextID)
}

// wait calls take under the lock until it returns true: at once, and whenever a context
// becomes free. release calls give under the lock.
func (s *sessions) wait(ctx context.Context, take func() bool, give func(), contextID string) (release func(), err error) {
	for {
		s.mu.Lock()
		taken, freed := take(), s.freed
		s.mu.Unlock()
		if taken {
			return s.releaser(contextID, give), nil
		}
		select {
		case <-freed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func (s *sessions) releaser(contextID string, give func()) func() {
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if give(); s.busy[contextID] == 0 {
			delete(s.busy, contextID)
			close(s.freed)
			s.freed = make(chan struct{})
		}
	})
}

// path returns the context's file. It hashes the id, which a client chose.
func (s *sessions) path(contextID string) string {
	sum := sha256.Sum256([]byte(contextID))
	return filepath.Join(s.dir, hex.EncodeToString(sum[:])+".json")
}

// load returns the context's session, the zero value if there is none.
func (s *sessions) load(contextID string) (savedSession, error) {
	data, err := readRecord(s.path(contextID))
	if errors.Is(err, fs.ErrNotExist) {
		return savedSession{}, nil
	}
	if err != nil {
		return savedSession{}, err
	}
	var saved savedSession
	if err := json.Unmarshal(data, &saved); err != nil {
		return savedSession{}, fmt.Errorf("the session file of a context is damaged: %w", err)
	}
	if !validSession(saved.SessionID) {
		saved.SessionID = "" // an earlier version saved whatever claude printed
	}
	return saved, nil
}

// save writes the session durably.
func (s *sessions) save(saved savedSession) error {
	data, err := json.Marshal(saved)
	if err != nil {
		return err
	}
	return durable.Replace(s.path(saved.ContextID), data)
}

// forget removes the context's session. The list of its sessions remains.
func (s *sessions) forget(contextID string) error {
	err := os.Remove(s.path(contextID))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// listPath returns the path of the list of all claude sessions that the context had here,
// also copies and those that another one replaced: all of them are forgotten together.
func (s *sessions) listPath(contextID string) string {
	return strings.TrimSuffix(s.path(contextID), ".json") + ".list"
}

// list returns the ids of the context's sessions.
func (s *sessions) list(contextID string) ([]string, error) {
	data, err := readRecord(s.listPath(contextID))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return strings.Fields(string(data)), err
}

// enlist adds a session to the context's list.
func (s *sessions) enlist(contextID, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	ids, err := s.list(contextID)
	if err != nil || slices.Contains(ids, id) {
		return err
	}
	return durable.Replace(s.listPath(contextID), []byte(strings.Join(append(ids, id), "\n")+"\n"))
}
