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

// ErrNothingPushed means that the storage has no memory of the project yet.
var ErrNothingPushed = errors.New("nothing has been pushed for this project yet: run bloom memory push on its primary")

// PrimaryDiffersError means that a pull on the primary would overwrite the source of truth.
type PrimaryDiffersError struct{ Node, Local, Remote string }

func (e *PrimaryDiffersError) Error() string {
	return fmt.Sprintf("%s is primary and its memory (%.12s) differs from the stored one (%.12s); a pull would overwrite the source of truth. Push, select another primary, or set ALLOW_PRIMARY_PULL_OVERRIDE=1",
		e.Node, e.Local, e.Remote)
}

// Pulled is the result of a pull.
type Pulled struct {
	Manifest

	// Unchanged means that the local database already had that content.
	Unchanged bool `json:"unchanged"`
	// Backup is the folder with the previous database; empty if there was none.
	Backup string `json:"backup,omitempty"`
	// LocalAhead means that the previous database had more observations.
	LocalAhead bool `json:"local_ahead"`
}

// Pull downloads the stored memory to this node, after a backup of the local one. An
// interrupted pull leaves either the old database or the new one, intact. It fails with a
// *PrimaryDiffersError on the primary, unless there is no database yet.
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
	p.removeOldBackups() // they may fill the disk
	there, err := p.readLocal(ctx)
	if err != nil {
		return Pulled{}, err
	}
	defer there.remove()
	if there.SHA256 == m.SHA256 {
		p.saveSynced(m.SHA256)
		return Pulled{Manifest: *m, Unchanged: true}, nil
	}
	if there.exists {
		if err := p.mayPull(ctx, there, m); err != nil {
			return Pulled{}, err
		}
	}
	p.Progress(fmt.Sprintf("downloading %d bytes", m.Size))
	incoming, err := p.download(ctx, there, m)
	if err != nil {
		return Pulled{}, err
	}
	defer incoming.remove()
	out := Pulled{Manifest: *m}
	p.Progress("replacing " + p.DB)
	if out.Backup, err = p.place(ctx, there, incoming, m); err != nil {
		return Pulled{}, err
	}
	out.LocalAhead = there.Observations > incoming.Observations
	p.Point("database replaced")
	p.saveSynced(m.SHA256)
	p.removeOldBackups()
	p.Point("old backups removed")
	return out, nil
}

// place puts the download in the database's place.
func (p *Project) place(ctx context.Context, there *local, incoming *Snapshot, m *Manifest) (folder string, err error) {
	if there.exists {
		if err := p.mayPull(ctx, there, m); err != nil { // it may have become primary during the download
			return "", err
		}
		return p.overwrite(ctx, there, incoming, m)
	}
	err = p.create(incoming.Path)
	if errors.Is(err, fs.ErrExist) && !exists(p.DB) {
		return p.overwrite(ctx, there, incoming, m) // the plugin may have the empty file open
	}
	if errors.Is(err, fs.ErrExist) {
		err = fmt.Errorf("the memory plugin has created %s during the download; nothing was changed. Pull again, which backs it up", p.DB)
	}
	return "", err
}

// overwrite backs up the local database, then replaces it.
func (p *Project) overwrite(ctx context.Context, there *local, incoming *Snapshot, m *Manifest) (folder string, err error) {
	backup := func() error {
		switch {
		case !there.exists:
			return nil
		case p.expected != "" && there.SHA256 != p.expected:
			return &DivergedError{Node: p.Node, PushedBy: m.SourceHost}
		}
		p.Progress("backing up the local database")
		folder, err = p.backup(there, m, there.Observations > incoming.Observations)
		if err != nil {
			return fmt.Errorf("nothing was changed, because the safety backup failed: %w", err)
		}
		return nil
	}
	if there.damage == nil {
		err := p.replace(ctx, there, incoming, backup)
		if rolledBack(err) { // each try would leave another backup of the same database
			_ = os.RemoveAll(folder)
		}
		return folder, err
	}
	if err := backup(); err != nil {
		return "", err
	}
	return folder, p.install(incoming.Path) // the backup has the damaged files
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

// download downloads the content that m describes to a file next to the database, and
// verifies it.
func (p *Project) download(ctx context.Context, there *local, m *Manifest) (_ *Snapshot, err error) {
	r, info, err := p.Bucket.Open(ctx, p.source(m))
	if errors.Is(err, objects.ErrNotFound) {
		return nil, fmt.Errorf("the stored memory is missing in the bucket (%s): push it again from the primary, or run bloom memory doctor", p.source(m))
	}
	if err != nil {
		return nil, fmt.Errorf("download: %w", err)
	}
	defer r.Close()
	size, err := p.expect(there, m, info.Size)
	if err != nil {
		return nil, err
	}
	name, err := p.temporary("pull")
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
	got, err := hashOf(io.LimitReader(r, size+1), f) // one byte more makes the checksum differ
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return nil, fmt.Errorf("download: %w", err)
	}
	if got != m.SHA256 {
		return nil, fmt.Errorf("the downloaded file has SHA-256 %.12s, but the manifest has %.12s: another tool may be pushing; try again, or run bloom memory doctor", got, m.SHA256)
	}
	p.Point("downloaded")
	s, err := inspect(ctx, name)
	p.Point("download checked")
	return s, err
}

func hashOf(r io.Reader, to io.Writer) (string, error) {
	h := sha256.New()
	if _, err := io.Copy(io.MultiWriter(to, h), r); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// create moves a file to the database's path. It fails with fs.ErrExist if there is a file.
func (p *Project) create(from string) error {
	for _, log := range p.logs() {
		if err := p.removeLeftover(log); err != nil {
			return err
		}
	}
	p.Point("old logs removed")
	err := os.Link(from, p.DB)
	if err != nil && !errors.Is(err, fs.ErrExist) && !present(p.DB) {
		err = os.Rename(from, p.DB) // the file system has no links
	}
	if err != nil {
		return err
	}
	p.Point("renamed")
	return durable.SyncDir(filepath.Dir(p.DB))
}

// removeLeftover removes a log of an earlier database. The plugin creates its database before its
// logs, so if there is a database once the log is out of the way, the log may be the plugin's: it is
// put back, and removeLeftover fails with fs.ErrExist.
func (p *Project) removeLeftover(log string) error {
	if present(p.DB) {
		return fs.ErrExist
	}
	p.Point("no database")
	aside, err := p.temporary("log")
	if err != nil {
		return err
	}
	if err := os.Rename(log, aside); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return errors.Join(err, os.Remove(aside))
	}
	if !present(p.DB) {
		return os.Remove(aside)
	}
	if !present(log) {
		err = os.Rename(aside, log)
	}
	return errors.Join(fs.ErrExist, err)
}

func present(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// install moves a file to the database's path, where there is no intact database.
func (p *Project) install(from string) error {
	if err := p.removeLogs(); err != nil {
		return err
	}
	if err := os.Rename(from, p.DB); err != nil {
		return err
	}
	p.Point("renamed")
	return durable.SyncDir(filepath.Dir(p.DB))
}

func (p *Project) logs() []string { return []string{p.DB + "-wal", p.DB + "-shm", p.DB + "-journal"} }

// removeLogs removes the logs of an earlier database: SQLite would apply them to the next one.
func (p *Project) removeLogs() error {
	for _, leftover := range p.logs() {
		if err := os.Remove(leftover); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	p.Point("old logs removed")
	return nil
}
