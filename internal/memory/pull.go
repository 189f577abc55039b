package memory

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/bloom-runtime/bloom/internal/durable"
	"github.com/bloom-runtime/bloom/internal/objects"
)

// ErrNothingPushed says that the storage has no memory of the project yet.
var ErrNothingPushed = errors.New("nothing has been pushed for this project yet: run bloom memory push on its primary")

// PrimaryDiffersError says that a pull on the primary would overwrite the source of
// truth.
type PrimaryDiffersError struct{ Node, Local, Remote string }

func (e *PrimaryDiffersError) Error() string {
	return fmt.Sprintf("%s is primary and its memory (%.12s) differs from the stored one (%.12s); a pull would overwrite the source of truth. Push, select another primary, or set ALLOW_PRIMARY_PULL_OVERRIDE=1",
		e.Node, e.Local, e.Remote)
}

// Pulled is what a pull did.
type Pulled struct {
	Manifest

	// Unchanged: the local database had that content already.
	Unchanged bool `json:"unchanged"`
	// Backup is the folder with what was there before; empty when nothing was.
	Backup string `json:"backup,omitempty"`
	// LocalAhead: what was there had more observations than what came.
	LocalAhead bool `json:"local_ahead"`
}

// Pull brings the stored memory to this node. What was there is backed up first. A
// pull that dies anywhere leaves the old database or the new one, each whole. It
// fails with a *PrimaryDiffersError on the primary, unless there is no database yet.
func (p *Project) Pull(ctx context.Context) (Pulled, error) {
	m, _, err := p.remote(ctx)
	if err != nil {
		return Pulled{}, err
	}
	if m == nil {
		return Pulled{}, ErrNothingPushed
	}
	if err := os.MkdirAll(filepath.Dir(p.DB), 0o700); err != nil {
		return Pulled{}, err
	}
	there, err := p.look(ctx)
	if err != nil {
		return Pulled{}, err
	}
	defer there.remove()
	if there.SHA256 == m.SHA256 {
		p.noteInStep(m.SHA256)
		return Pulled{Manifest: *m, Unchanged: true}, nil
	}
	if there.exists {
		if err := p.mayPull(ctx, there, m); err != nil {
			return Pulled{}, err
		}
	}
	p.Progress(fmt.Sprintf("downloading %d bytes", m.Size))
	incoming, err := p.download(ctx, m)
	if err != nil {
		return Pulled{}, err
	}
	defer incoming.remove()
	out := Pulled{Manifest: *m, LocalAhead: there.exists && there.Observations > incoming.Observations}
	if !there.exists {
		p.Progress("putting it in place")
		if err := install(incoming.Path, p.DB); err != nil {
			return Pulled{}, err
		}
		p.noteInStep(m.SHA256)
		return out, nil
	}
	p.Progress("backing up what is here")
	if out.Backup, err = p.backup(there, m, out.LocalAhead); err != nil {
		return Pulled{}, fmt.Errorf("no safety backup, so nothing was changed: %w", err)
	}
	p.Progress("replacing " + p.DB)
	if there.damage != nil {
		err = install(incoming.Path, p.DB) // all of what SQLite cannot read is in the backup
	} else {
		err = replace(ctx, incoming.Path, p.DB)
	}
	if err != nil {
		return Pulled{}, err
	}
	p.noteInStep(m.SHA256)
	p.removeOldBackups()
	return out, nil
}

// local is the database of this node.
type local struct {
	Snapshot

	exists bool
	damage error // why no snapshot could be taken
}

// remove deletes the snapshot, if one was taken.
func (l *local) remove() {
	if l.Path != "" {
		l.Snapshot.remove()
	}
}

func (p *Project) look(ctx context.Context) (*local, error) {
	info, err := os.Stat(p.DB)
	if errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() == 0 {
		return &local{}, nil
	}
	if err != nil {
		return nil, err
	}
	s, err := snapshot(ctx, p.DB)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return &local{exists: true, damage: err}, nil
	}
	return &local{Snapshot: *s, exists: true}, nil
}

func (p *Project) mayPull(ctx context.Context, there *local, m *Manifest) error {
	if p.IgnoreLeadership || p.PrimaryMayPull {
		return nil
	}
	role, _, err := p.Role(ctx)
	if err != nil {
		return err
	}
	if role == Primary {
		return &PrimaryDiffersError{Node: p.Node, Local: there.SHA256, Remote: m.SHA256}
	}
	return nil
}

// download fetches what m describes beside the database and checks it.
func (p *Project) download(ctx context.Context, m *Manifest) (_ *Snapshot, err error) {
	r, _, err := p.Bucket.Open(ctx, p.source(m))
	if errors.Is(err, objects.ErrNotFound) {
		return nil, fmt.Errorf("the stored memory is gone from the bucket (%s): push it again from the primary, or see bloom memory doctor", p.source(m))
	}
	if err != nil {
		return nil, fmt.Errorf("download: %w", err)
	}
	defer r.Close()
	f, err := os.CreateTemp(filepath.Dir(p.DB), ".bloom-memory-pull-*.tmp")
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	got, err := hashOf(r, f)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return nil, fmt.Errorf("download: %w", err)
	}
	if got != m.SHA256 {
		return nil, fmt.Errorf("what was downloaded is not what the manifest names (SHA-256 %.12s, not %.12s): a push by another tool may be under way; try again, or see bloom memory doctor", got, m.SHA256)
	}
	return inspect(ctx, f.Name())
}

func hashOf(r io.Reader, to io.Writer) (string, error) {
	h := sha256.New()
	if _, err := io.Copy(io.MultiWriter(to, h), r); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// install moves a file to a place where there is no database, or none that counts.
func install(from, to string) error {
	// A log that an earlier database left would be taken for this one's.
	for _, leftover := range []string{to + "-wal", to + "-shm", to + "-journal"} {
		if err := os.Remove(leftover); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := os.Rename(from, to); err != nil {
		return err
	}
	return durable.SyncDir(filepath.Dir(to))
}
