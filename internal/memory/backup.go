package memory

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bloom-runtime/bloom/internal/durable"
)

// incompletePrefix is the prefix of a backup folder that is not complete yet.
const incompletePrefix = ".half-"

// BackupManifest describes a safety backup.
type BackupManifest struct {
	Timestamp    time.Time `json:"timestamp"`
	Host         string    `json:"hostname"`
	Reason       string    `json:"reason"`
	LocalSHA     string    `json:"local_sha"`
	RemoteSHA    string    `json:"remote_sha"`
	Observations int64     `json:"local_obs"`
	Remote       int64     `json:"remote_obs"`
	LocalAhead   bool      `json:"local_ahead"`
	DB           string    `json:"db_path"`
	// Damaged means that SQLite could not read the database; its files were copied as they
	// were.
	Damaged bool `json:"damaged,omitempty"`
}

// BackupFolder returns the folder of the database's safety backups.
func (p *Project) BackupFolder() string {
	return filepath.Join(filepath.Dir(p.DB), "backups", "pull-overwrite")
}

// backup saves the database that a pull is about to overwrite. The folder gets its final
// name when it is completely on disk.
func (p *Project) backup(there *local, m *Manifest, ahead bool) (string, error) {
	base := p.BackupFolder()
	if err := durable.MkdirAll(base); err != nil {
		return "", err
	}
	tmp, err := os.MkdirTemp(base, incompletePrefix+strconv.Itoa(os.Getpid())+"-*")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(tmp) }() // does nothing once it is renamed
	p.Point("backup folder made")
	if there.damage == nil {
		// The snapshot is on disk already, and nothing else needs it.
		if err = os.Rename(there.Path, filepath.Join(tmp, "claude-mem.db")); err != nil {
			err = copyFile(there.Path, filepath.Join(tmp, "claude-mem.db")) // another file system
		}
	} else {
		for _, end := range []string{"", "-wal", "-shm", "-journal"} {
			if e := copyFile(p.DB+end, filepath.Join(tmp, "claude-mem.db"+end)); !errors.Is(e, fs.ErrNotExist) {
				err = errors.Join(err, e)
			}
		}
	}
	if err != nil {
		return "", err
	}
	p.Point("backup copied")
	about, err := json.MarshalIndent(BackupManifest{
		Timestamp: p.Now().UTC(), Host: p.Node, Reason: "pull-overwrite safety backup", LocalSHA: there.SHA256, RemoteSHA: m.SHA256,
		Observations: there.Observations, Remote: m.Observations, LocalAhead: ahead, DB: p.DB, Damaged: there.damage != nil,
	}, "", "  ")
	if err != nil {
		return "", err
	}
	if err := writeFile(filepath.Join(tmp, "manifest.json"), strings.NewReader(string(about))); err != nil {
		return "", err
	}
	if err := durable.SyncDir(tmp); err != nil {
		return "", err
	}
	p.Point("backup described")
	folder := filepath.Join(base, p.Now().UTC().Format("20060102-150405.000000000"))
	if err := os.Rename(tmp, folder); err != nil {
		return "", err
	}
	if err := durable.SyncDir(base); err != nil {
		return "", err
	}
	p.Point("backup in place")
	return folder, nil
}

// Backups lists the safety backups, oldest first.
func (p *Project) Backups() ([]string, error) {
	entries, err := os.ReadDir(p.BackupFolder())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var whole []string
	for _, e := range entries {
		if e.IsDir() && !strings.HasPrefix(e.Name(), incompletePrefix) {
			whole = append(whole, filepath.Join(p.BackupFolder(), e.Name()))
		}
	}
	slices.Sort(whole)
	return whole, err
}

// removeOldBackups removes the backups that are too many or too old. It always keeps the
// newest one.
func (p *Project) removeOldBackups() {
	whole, err := p.Backups()
	if err != nil || len(whole) == 0 {
		return // the next pull tries again
	}
	for i, folder := range whole[:len(whole)-1] {
		info, err := os.Stat(folder)
		if err == nil && (len(whole)-i > p.BackupCount || p.Now().Sub(info.ModTime()) > p.BackupAge) {
			_ = os.RemoveAll(folder)
		}
	}
}

func copyFile(from, to string) error {
	f, err := os.Open(from)
	if err != nil {
		return err
	}
	defer f.Close()
	return writeFile(to, f)
}

func writeFile(path string, content io.Reader) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, content)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}
