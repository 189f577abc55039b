package claude

import (
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

	mu   sync.Mutex
	busy map[string]int // context → runs that hold it
}

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
	return &sessions{dir: dir, busy: map[string]int{}}, nil
}

// acquire marks the context as at work. first reports that nobody else was.
func (s *sessions) acquire(contextID string) (first bool, release func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy[contextID]++
	return s.busy[contextID] == 1, sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.busy[contextID]--; s.busy[contextID] == 0 {
			delete(s.busy, contextID)
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
	data, err := os.ReadFile(s.path(contextID))
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
