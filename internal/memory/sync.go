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

// DivergedError says that keeping in step would discard a memory: this node became
// primary, and since it was in step last, both its memory and the stored one changed.
type DivergedError struct{ Node, PushedBy string }

func (e *DivergedError) Error() string {
	return fmt.Sprintf("%s is primary, but %s has pushed a memory that this node never had, and the one here has changed too. Decide which one counts: bloom memory push (this node's), or bloom memory pull --allow-primary-pull-override (the stored one)",
		e.Node, e.PushedBy)
}

// Synced is what one round of keeping in step did: a push, a pull, or nothing.
type Synced struct {
	Pushed *Pushed
	Pulled *Pulled
}

// Syncer keeps a node's memory in step. One goroutine at a time may call Sync.
type Syncer struct {
	*Project

	pushed stamp // of the database when it was pushed last
}

// Sync does what this node's role asks for: the primary pushes what has changed, a
// secondary pulls what is newer than what it pulled last. What a secondary writes
// itself does not make it pull.
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
		if here && s.inStepWith() == stored.SHA256 {
			return Synced{}, nil
		}
		return s.take(ctx, s.Project)
	case role == Secondary:
		return Synced{}, nil // the primary has pushed nothing yet
	case stored != nil && s.inStepWith() != stored.SHA256:
		return s.catchUp(ctx, stored)
	}
	return s.give(ctx)
}

func (s *Syncer) take(ctx context.Context, p *Project) (Synced, error) {
	out, err := p.Pull(ctx)
	if err != nil || out.Unchanged {
		return Synced{}, err
	}
	return Synced{Pulled: &out}, nil
}

func (s *Syncer) give(ctx context.Context) (Synced, error) {
	now := stampOf(s.DB)
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

// catchUp is for a primary that has not seen the stored memory, as a new one may not.
// Where nothing was written here since it was in step, it takes the stored one first.
func (s *Syncer) catchUp(ctx context.Context, stored *Manifest) (Synced, error) {
	there, err := s.look(ctx)
	if err != nil {
		return Synced{}, err
	}
	there.remove()
	switch there.SHA256 {
	case stored.SHA256:
		s.noteInStep(stored.SHA256)
		return Synced{}, nil
	case s.inStepWith():
		free := *s.Project
		free.PrimaryMayPull = true
		return s.take(ctx, &free)
	}
	return Synced{}, &DivergedError{Node: s.Node, PushedBy: stored.SourceHost}
}

func exists(path string) bool {
	info, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist) && (err != nil || info.Size() > 0)
}

// inStepFile holds the SHA-256 of the memory that was pushed or pulled here last.
func (p *Project) inStepFile() string {
	return filepath.Join(filepath.Dir(p.DB), "."+filepath.Base(p.DB)+".in-step")
}

// inStepWith is that SHA-256; empty when it is not known.
func (p *Project) inStepWith() string {
	text, err := os.ReadFile(p.inStepFile())
	if err != nil {
		return ""
	}
	id, sha, _ := strings.Cut(strings.TrimSpace(string(text)), " ")
	if id != p.id {
		return "" // the folder held another project's memory
	}
	return sha
}

// noteInStep remembers it. Forgetting it costs one needless pull, no memory.
func (p *Project) noteInStep(sha string) {
	if p.inStepWith() != sha {
		_ = durable.Replace(p.inStepFile(), []byte(p.id+" "+sha+"\n"))
	}
}

// stamp tells whether a database may have changed, without reading it.
type stamp struct {
	size, wal         int64
	changed, walAdded time.Time
}

func stampOf(path string) (s stamp) {
	if info, err := os.Stat(path); err == nil {
		s.size, s.changed = info.Size(), info.ModTime()
	}
	if info, err := os.Stat(path + "-wal"); err == nil {
		s.wal, s.walAdded = info.Size(), info.ModTime()
	}
	return s
}
