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
	"sync"

	"github.com/bloom-runtime/bloom/internal/durable"
)

// sessions remembers which claude session belongs to which context, one small
// file each, so that it survives the worker. It also knows which contexts are
// at work now: two runs must not resume one session at the same time.
type sessions struct {
	dir string

	mu    sync.Mutex
	busy  map[string]int // context → runs that hold it; forgetting while it is being forgotten
	freed chan struct{}  // closed when a context becomes free
}

// forgetting marks a context that is being forgotten.
const forgetting = -1

// savedSession is the content of a context's file.
type savedSession struct {
	ContextID string `json:"context_id"`
	SessionID string `json:"session_id"`
	// Workdir: claude finds a session only from where it was made.
	Workdir   string `json:"workdir"`
	UpdatedAt int64  `json:"updated_at"` // Unix milliseconds

	// Movable: the server keeps the context's transcript. Base is what it had before
	// the last turn that ended here, nil when nothing; Next is what there was after it,
	// and Pushed that it was given to the server.
	Movable bool  `json:"movable,omitempty"`
	Base    *mark `json:"base,omitempty"`
	Next    *mark `json:"next,omitempty"`
	Pushed  bool  `json:"pushed,omitempty"`
	Parts   int   `json:"parts,omitempty"`
}

func openSessions(stateDir string) (*sessions, error) {
	dir := filepath.Join(stateDir, "sessions")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("session folder: %w", err)
	}
	return &sessions{dir: dir, busy: map[string]int{}, freed: make(chan struct{})}, nil
}

// acquire marks the context as at work. first reports that nobody else was. It waits
// while the context is being forgotten, and fails only when ctx ends.
func (s *sessions) acquire(ctx context.Context, contextID string) (first bool, release func(), err error) {
	release, err = s.wait(ctx, func() bool {
		if s.busy[contextID] == forgetting {
			return false
		}
		s.busy[contextID]++
		first = s.busy[contextID] == 1
		return true
	}, func() { s.busy[contextID]-- }, contextID)
	return first, release, err
}

// reserve marks the context as being forgotten, unless it is at work.
func (s *sessions) reserve(contextID string) (release func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy[contextID] != 0 {
		return nil, false
	}
	s.busy[contextID] = forgetting
	return s.releaser(contextID, func() { s.busy[contextID] = 0 }), true
}

// await is reserve for when the context is no longer at work.
func (s *sessions) await(ctx context.Context, contextID string) (release func(), err error) {
	return s.wait(ctx, func() bool {
		if s.busy[contextID] != 0 {
			return false
		}
		s.busy[contextID] = forgetting
		return true
	}, func() { s.busy[contextID] = 0 }, contextID)
}

// wait calls take under the lock, again whenever a context has become free, until it
// succeeds. release calls give under the lock.
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

// path hashes the context id: it is a client's, and no part of a path.
func (s *sessions) path(contextID string) string {
	sum := sha256.Sum256([]byte(contextID))
	return filepath.Join(s.dir, hex.EncodeToString(sum[:])+".json")
}

// load returns what is known of the context; the zero value when nothing is.
func (s *sessions) load(contextID string) (savedSession, error) {
	data, err := readNote(s.path(contextID))
	if errors.Is(err, fs.ErrNotExist) {
		return savedSession{}, nil
	}
	if err != nil {
		return savedSession{}, err
	}
	var saved savedSession
	if err := json.Unmarshal(data, &saved); err != nil {
		return savedSession{}, fmt.Errorf("session file of a context is damaged: %w", err)
	}
	return saved, nil
}

// save keeps the session through crashes and power failures.
func (s *sessions) save(saved savedSession) error {
	data, err := json.Marshal(saved)
	if err != nil {
		return err
	}
	return durable.Replace(s.path(saved.ContextID), data)
}

// forget drops a session that claude no longer knows.
func (s *sessions) forget(contextID string) error {
	err := os.Remove(s.path(contextID))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
