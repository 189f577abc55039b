package memory

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/bloom-runtime/bloom/internal/durable"
)

// DivergedError means that synchronizing would discard a memory: this node became primary,
// and both its memory and the stored one have changed since the last synchronization.
type DivergedError struct{ Node, PushedBy string }

func (e *DivergedError) Error() string {
	return fmt.Sprintf("%s is primary, but %s has pushed a memory that this node never had, and the local one has changed, too. Decide which one to keep: bloom memory push (this node's), or bloom memory pull --allow-primary-pull-override (the stored one)",
		e.Node, e.PushedBy)
}

// Synced is the result of a synchronization: a push, a pull, or nothing.
type Synced struct {
	Pushed *Pushed
	Pulled *Pulled
}

// Syncer synchronizes a node's memory. Sync is not safe for concurrent use.
type Syncer struct {
	*Project

	pushed fileState // of the database at its last push
}

// Sync pushes the memory if this node is primary and the memory has changed. On a secondary
// it pulls the stored memory if that has changed since the last pull, whatever was written
// locally.
func (s *Syncer) Sync(ctx context.Context) (Synced, error) {
	if err := s.Bucket.Ensure(ctx); err != nil {
		return Synced{}, err
	}
	stored, _, err := s.remote(ctx)
	if err != nil {
		return Synced{}, err
	}
	here := exists(s.DB)
	if stored == nil && !here {
		return Synced{}, nil // a node without a memory does not become primary by itself
	}
	role, _, err := s.Role(ctx)
	if err != nil {
		return Synced{}, err
	}
	switch {
	case stored != nil && (role == Secondary || !here):
		if here && s.syncedSHA() == stored.SHA256 {
			return Synced{}, nil
		}
		return s.pull(ctx, s.Project)
	case role == Secondary:
		return Synced{}, nil // the primary has pushed nothing yet
	case stored != nil && s.syncedSHA() != stored.SHA256:
		return s.catchUp(ctx, stored)
	}
	return s.push(ctx)
}

func (s *Syncer) pull(ctx context.Context, p *Project) (Synced, error) {
	out, err := p.Pull(ctx)
	if err != nil || out.Unchanged {
		return Synced{}, err
	}
	return Synced{Pulled: &out}, nil
}

func (s *Syncer) push(ctx context.Context) (Synced, error) {
	now := fileStateOf(s.DB)
	if now == s.pushed {
		return Synced{}, nil
	}
	out, err := s.Push(ctx)
	if err != nil {
		return Synced{}, err
	}
	s.pushed = now
	if out.Unchanged {
		return Synced{}, nil
	}
	return Synced{Pushed: &out}, nil
}

// catchUp handles a primary, usually a new one, that does not have the stored memory. It
// pulls the stored memory if nothing was written locally since the last synchronization.
func (s *Syncer) catchUp(ctx context.Context, stored *Manifest) (Synced, error) {
	there, err := s.readLocal(ctx)
	if err != nil {
		return Synced{}, err
	}
	there.remove()
	switch there.SHA256 {
	case stored.SHA256:
		s.saveSynced(stored.SHA256)
		return Synced{}, nil
	case s.syncedSHA():
		free := *s.Project
		free.PrimaryMayPull = true
		return s.pull(ctx, &free)
	}
	return Synced{}, &DivergedError{Node: s.Node, PushedBy: stored.SourceHost}
}

func exists(path string) bool {
	info, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist) && (err != nil || info.Size() > 0)
}

// syncedFile returns the file with the SHA-256 of the memory that was last pushed or pulled
// here.
func (p *Project) syncedFile() string {
	return filepath.Join(filepath.Dir(p.DB), "."+filepath.Base(p.DB)+".in-step")
}

// syncedSHA returns that SHA-256, "" if it is unknown.
func (p *Project) syncedSHA() string {
	text, err := os.ReadFile(p.syncedFile())
	if err != nil {
		return ""
	}
	id, sha, _ := strings.Cut(strings.TrimSpace(string(text)), " ")
	if id != p.id {
		return "" // the folder held another project's memory
	}
	return sha
}

// saveSynced writes that SHA-256. If that fails, the only cost is an unnecessary pull.
func (p *Project) saveSynced(sha string) {
	if p.syncedSHA() != sha {
		_ = durable.Replace(p.syncedFile(), []byte(p.id+" "+sha+"\n"))
	}
}

// fileState shows whether a database may have changed, without reading it.
type fileState struct {
	size, wal         int64
	changed, walAdded time.Time
}

func fileStateOf(path string) (s fileState) {
	if info, err := os.Stat(path); err == nil {
		s.size, s.changed = info.Size(), info.ModTime()
	}
	if info, err := os.Stat(path + "-wal"); err == nil {
		s.wal, s.walAdded = info.Size(), info.ModTime()
	}
	return s
}
