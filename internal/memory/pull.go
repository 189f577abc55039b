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
	"syscall"

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
	out := Pulled{Manifest: *m}
	if !there.exists {
		p.Progress("putting it in place")
		err = p.install(incoming.Path)
	} else {
		p.Progress("replacing " + p.DB)
		out.Backup, err = p.overwrite(ctx, there, incoming, m)
		out.LocalAhead = there.Observations > incoming.Observations
	}
	if err != nil {
		return Pulled{}, err
	}
	p.Point("database replaced")
	p.noteInStep(m.SHA256)
	p.removeOldBackups()
	p.Point("old backups removed")
	return out, nil
}

// overwrite backs up what is there, then replaces it.
func (p *Project) overwrite(ctx context.Context, there *local, incoming *Snapshot, m *Manifest) (folder string, err error) {
	keep := func() error {
		p.Progress("backing up what is here")
		folder, err = p.backup(there, m, there.Observations > incoming.Observations)
		if err != nil {
			return fmt.Errorf("no safety backup, so nothing was changed: %w", err)
		}
		return nil
	}
	if there.damage == nil {
		return folder, p.replace(ctx, there, incoming, keep)
	}
	if err := keep(); err != nil {
		return "", err
	}
	return folder, p.install(incoming.Path) // all of what SQLite cannot read is in the backup
}

// local is the database of this node.
type local struct {
	Snapshot

	exists bool
	damage error  // why no snapshot could be taken
	watch  *watch // over the connection that took the snapshot; nil for none
}

// remove deletes the snapshot, if one was taken.
func (l *local) remove() {
	l.stopWatching()
	if l.Path != "" {
		l.Snapshot.remove()
	}
}

func (l *local) stopWatching() {
	if l.watch != nil {
		l.watch.close()
		l.watch = nil
	}
}

// changed reports whether somebody has written since the snapshot.
func (l *local) changed(ctx context.Context) (bool, error) {
	now, err := l.watch.dataVersion(ctx)
	return now != l.watch.version, err
}

// again takes the snapshot anew.
func (l *local) again(ctx context.Context, db execer, p *Project) error {
	s, err := snapshotOn(ctx, db, p.DB, p.Point)
	if err != nil {
		return err
	}
	l.Snapshot.remove()
	l.Snapshot = *s
	return nil
}

func (p *Project) look(ctx context.Context) (*local, error) {
	info, err := os.Stat(p.DB)
	if errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() == 0 {
		return &local{}, nil
	}
	if err != nil {
		return nil, err
	}
	found := &local{exists: true}
	var s *Snapshot
	if err = rollBack(ctx, p.DB); err == nil {
		found.watch, err = newWatch(ctx, p.DB)
	}
	if err == nil {
		s, err = snapshotOn(ctx, found.watch.conn, p.DB, p.Point)
	}
	switch {
	case err == nil:
		found.Snapshot = *s
		return found, nil
	case ctx.Err() != nil:
		err = ctx.Err()
	case damage(err):
		found.stopWatching()
		found.damage = err
		return found, nil
	}
	found.stopWatching()
	return nil, err
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
	r, info, err := p.Bucket.Open(ctx, p.source(m))
	if errors.Is(err, objects.ErrNotFound) {
		return nil, fmt.Errorf("the stored memory is gone from the bucket (%s): push it again from the primary, or see bloom memory doctor", p.source(m))
	}
	if err != nil {
		return nil, fmt.Errorf("download: %w", err)
	}
	defer r.Close()
	size, err := p.expect(m, info.Size)
	if err != nil {
		return nil, err
	}
	name, err := temporary(p.DB, "pull")
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(name)
		}
	}()
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return nil, err
	}
	p.Point("download begun")
	got, err := hashOf(io.LimitReader(r, size+1), f) // more is not what the storage said
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return nil, fmt.Errorf("download: %w", err)
	}
	if got != m.SHA256 {
		return nil, fmt.Errorf("what was downloaded is not what the manifest names (SHA-256 %.12s, not %.12s): a push by another tool may be under way; try again, or see bloom memory doctor", got, m.SHA256)
	}
	p.Point("downloaded")
	s, err := inspect(ctx, name)
	p.Point("download checked")
	return s, err
}

// spareDisk is what a pull leaves of the disk to others, in bytes.
const spareDisk = 16 << 20

// expect returns how large the download will be, when the manifest and the storage agree on it and
// the disk has room. Manifests of other tools need not say it.
func (p *Project) expect(m *Manifest, stored int64) (int64, error) {
	switch {
	case stored < 0:
		return 0, errors.New("the storage does not say how large the stored memory is")
	case m.Size > 0 && m.Size != stored:
		return 0, fmt.Errorf("the stored memory is not what the manifest names (%d bytes, not %d): a push by another tool may be under way; try again, or see bloom memory doctor", stored, m.Size)
	}
	free, err := p.FreeDisk(filepath.Dir(p.DB))
	if err != nil {
		return 0, fmt.Errorf("the free space for %s: %w", p.DB, err)
	}
	if free < uint64(stored)+spareDisk {
		return 0, fmt.Errorf("the stored memory has %d bytes and the disk of %s has room for %d: make room", stored, p.DB, max(free, spareDisk)-spareDisk)
	}
	return stored, nil
}

func freeDisk(dir string) (uint64, error) {
	var disk syscall.Statfs_t
	err := syscall.Statfs(dir, &disk)
	return disk.Bavail * uint64(disk.Bsize), err
}

func hashOf(r io.Reader, to io.Writer) (string, error) {
	h := sha256.New()
	if _, err := io.Copy(io.MultiWriter(to, h), r); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// install moves a file to where there is no database, or none that counts.
func (p *Project) install(from string) error {
	// A log that an earlier database left would be taken for this one's.
	for _, leftover := range []string{p.DB + "-wal", p.DB + "-shm", p.DB + "-journal"} {
		if err := os.Remove(leftover); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	p.Point("old logs removed")
	if err := os.Rename(from, p.DB); err != nil {
		return err
	}
	p.Point("renamed")
	return durable.SyncDir(filepath.Dir(p.DB))
}
