package local

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/bloom-runtime/bloom"
)

// lastProbe is the result of the last probe.
type lastProbe struct {
	mu    sync.Mutex
	state bloom.BlobState
}

// State returns the result of the last Refresh.
func (s *Store) State() bloom.BlobState {
	s.probed.mu.Lock()
	defer s.probed.mu.Unlock()
	state := s.probed.state
	state.Kind = bloom.BlobsLocal
	if state.Can == nil {
		state.Can = []string{}
	}
	return state
}

// Unavailable reports whether the last probe failed.
func (s *Store) Unavailable() bool { return !s.State().Connected }

// Refresh probes the folder: write, read, delete. It reports whether the folder has become available
// again.
func (s *Store) Refresh(ctx context.Context) (back bool, err error) {
	can, err := s.probe(ctx)
	if err != nil && ctx.Err() != nil {
		return false, ctx.Err()
	}
	s.probed.mu.Lock()
	defer s.probed.mu.Unlock()
	was := s.probed.state
	s.probed.state = bloom.BlobState{Connected: err == nil, Can: can}
	if err != nil {
		text := err.Error()
		s.probed.state.LastError = &text
	}
	return err == nil && !was.Connected, err
}

func (s *Store) probe(ctx context.Context) (can []string, err error) {
	content := rand.Text()
	sum := sha256.Sum256([]byte(content))
	url, err := s.Put(ctx, "probe/"+content, strings.NewReader(content), int64(len(content)), hex.EncodeToString(sum[:]))
	if err != nil {
		return can, fmt.Errorf("the artifact folder cannot be written: %w", err)
	}
	can = append(can, "write")
	r, err := s.Open(ctx, url)
	if err == nil {
		var got []byte
		got, err = io.ReadAll(r)
		if _ = r.Close(); err == nil && string(got) == content {
			can = append(can, "read")
		}
	}
	if len(can) == 1 {
		return can, fmt.Errorf("the artifact folder cannot be read: %w", err)
	}
	if err := s.Delete(ctx, url); err != nil {
		return can, fmt.Errorf("the artifact folder cannot be deleted from: %w", err)
	}
	return append(can, "delete"), nil
}
