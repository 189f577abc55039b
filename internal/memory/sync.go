package memory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
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
	if stored == nil {
		if err := s.checkLost(ctx); err != nil {
			return Synced{}, err
		}
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
	case stored == nil:
		s.pushed = fileState{} // the storage may have lost what was pushed
	case s.syncedSHA() != stored.SHA256:
		return s.catchUp(ctx, stored)
	}
	return s.push(ctx)
}

// LostError means that the storage has lost a project's memory and lease. The first node that
// synchronizes must not become primary: another one may have the newer memory.
type LostError struct{ Project, Node string }

func (e *LostError) Error() string {
	return fmt.Sprintf("the object storage has lost the memory of %s and which node is primary. Select the node with the right memory: %s, or Membridge in the web application",
		e.Project, selectCommand(e.Project, e.Node))
}

// checkLost fails if this node had the stored memory once, and now there is neither memory nor
// lease.
func (p *Project) checkLost(ctx context.Context) error {
	if p.syncedSHA() == "" || p.Primary != "" {
		return nil
	}
	_, ok, err := p.Leadership(ctx)
	if err == nil && !ok {
		return &LostError{Project: p.Project, Node: p.Node}
	}
	return err
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
// pulls the stored memory if nothing was written locally since the last synchronization, and
// pushes if the stored memory is from a push of its own whose answer was lost.
func (s *Syncer) catchUp(ctx context.Context, stored *Manifest) (Synced, error) {
	if _, unanswered := s.readSynced(); slices.Contains(unanswered, stored.SHA256) {
		s.saveSynced(stored.SHA256)
		return s.push(ctx)
	}
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
		free.PrimaryMayPull, free.expected = true, there.SHA256
		return s.pull(ctx, &free)
	}
	return Synced{}, &DivergedError{Node: s.Node, PushedBy: stored.SourceHost}
}

func exists(path string) bool {
	info, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist) && (err != nil || info.Size() > 0)
}

// syncedFile returns the file with the SHA-256 of the memory that was last pushed or pulled
// here, and of the pushes since whose result is unknown.
func (p *Project) syncedFile() string {
	return filepath.Join(filepath.Dir(p.DB), "."+filepath.Base(p.DB)+".in-step")
}

// readSynced reads that SHA-256, "" if it is unknown, and those of the pushes since, of which
// it is not known whether the storage has them.
func (p *Project) readSynced() (sha string, unanswered []string) {
	text, err := os.ReadFile(p.syncedFile())
	if err != nil {
		return "", nil
	}
	words := strings.Fields(string(text))
	if len(words) < 2 || words[0] != p.id {
		return "", nil // the folder held another project's memory
	}
	return strings.TrimPrefix(words[1], noSHA), words[2:]
}

func (p *Project) syncedSHA() string {
	sha, _ := p.readSynced()
	return sha
}

// saveSynced writes that SHA-256. If that fails, the only cost is an unnecessary pull.
func (p *Project) saveSynced(sha string) {
	if before, unanswered := p.readSynced(); before != sha || len(unanswered) > 0 {
		_ = p.writeSynced(sha)
	}
}

// noSHA stands for an unknown SHA-256 in the file.
const noSHA = "-"

// mostUnanswered limits the SHA-256s that savePublishing keeps.
const mostUnanswered = 8

// savePublishing records a push whose manifest is about to be written, so that the next
// synchronization recognizes it even if the answer is lost.
func (p *Project) savePublishing(sha string) error {
	synced, unanswered := p.readSynced()
	unanswered = append(slices.DeleteFunc(unanswered, func(s string) bool { return s == sha }), sha)
	if err := p.writeSynced(synced, unanswered[max(0, len(unanswered)-mostUnanswered):]...); err != nil {
		return fmt.Errorf("record the push in %s: %w", p.syncedFile(), err)
	}
	return nil
}

func (p *Project) writeSynced(sha string, unanswered ...string) error {
	words := append([]string{p.id, cmp.Or(sha, noSHA)}, unanswered...)
	return durable.Replace(p.syncedFile(), []byte(strings.Join(words, " ")+"\n"))
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
