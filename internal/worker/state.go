package worker

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/bloom-runtime/bloom/internal/durable"
)

// state is the worker's state folder, locked while the process lives.
type state struct {
	dir      string
	instance string
	copied   bool // the folder is a copy of another instance's
	lock     durable.Lock
	// forgotten records which contexts' data was deleted here.
	forgotten *progress
}

// ErrStateInUse means that another live process uses the state folder.
var ErrStateInUse = errors.New("another worker process uses this state folder; stop it, or give this one a folder of its own")

// openState locks the folder and reads the instance id. The id belongs to the folder,
// not to the process: a restarted worker is the same instance, so the server accepts it
// at once and returns the leases that it held.
func openState(dir string) (*state, error) {
	for _, d := range []string{dir, filepath.Join(dir, "leases"), filepath.Join(dir, "outbox"), filepath.Join(dir, "outbox", "refused")} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return nil, fmt.Errorf("worker: state folder: %w", err)
		}
	}
	lock, err := durable.LockFile(filepath.Join(dir, "lock"))
	if errors.Is(err, durable.ErrLocked) {
		return nil, errors.Join(fmt.Errorf("%s: %w", dir, ErrStateInUse), lock.Close())
	}
	if err != nil {
		return nil, fmt.Errorf("worker: lock the state folder: %w", err)
	}
	s := &state{dir: dir, lock: lock}
	if s.instance, err = s.identity(); err != nil {
		return nil, errors.Join(err, lock.Unlock())
	}
	s.forgotten = openProgress(filepath.Join(dir, "forgotten"))
	return s, nil
}

func (s *state) close() { _ = s.lock.Unlock() }

// identity reads the instance id, or creates one. The file's second line identifies the
// folder that the id was created for, so that a copy of the folder becomes another
// instance, which the server refuses while the original one is alive.
func (s *state) identity() (string, error) {
	path := filepath.Join(s.dir, "instance")
	raw, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("worker: read the instance id: %w", err)
	}
	current, err := s.fingerprint()
	if err != nil {
		return "", fmt.Errorf("worker: state folder: %w", err)
	}
	id, recorded, _ := strings.Cut(strings.TrimSpace(string(raw)), "\n")
	s.copied = id != "" && recorded != "" && recorded != current
	if id == "" || s.copied {
		id = rand.Text()
	}
	if recorded == current {
		return id, nil
	}
	return id, writeDurably(path, []byte(id+"\n"+current+"\n"))
}

// fingerprint distinguishes this folder from a copy of it, by the machine and by the
// inode of the lock file, which is never replaced. It does not use the device number,
// which may change when the machine restarts.
func (s *state) fingerprint() (string, error) {
	var lock syscall.Stat_t
	if err := syscall.Fstat(int(s.lock.Fd()), &lock); err != nil {
		return "", err
	}
	machine, _ := os.ReadFile("/etc/machine-id") // not every system has one
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %s", lock.Ino, bytes.TrimSpace(machine)))
	return hex.EncodeToString(sum[:16]), nil
}

// writeDurably replaces a file atomically. The file survives a power failure once
// writeDurably has returned.
func writeDurably(path string, data []byte) error {
	if err := durable.Replace(path, data); err != nil {
		return fmt.Errorf("worker: write %s: %w", filepath.Base(path), err)
	}
	return nil
}

// probeSize is the free space that the state folder must have before work begins again:
// enough for an outcome, not only for a journal entry.
const probeSize = 1 << 20

// probe returns why the state folder cannot be written, nil when it can.
func (s *state) probe() error {
	for _, folder := range []string{"leases", "outbox"} {
		path := filepath.Join(s.dir, folder, "probe")
		if err := writeDurably(path, make([]byte, probeSize)); err != nil {
			return err
		}
		if err := os.Remove(path); err != nil {
			return err
		}
	}
	return nil
}

// journalEntry records a lease whose work has begun.
type journalEntry struct {
	TaskID  string `json:"task_id"`
	LeaseID string `json:"lease_id"`
	BegunAt int64  `json:"begun_at"` // Unix milliseconds
}

func (s *state) entryPath(leaseID string) string {
	return filepath.Join(s.dir, "leases", filepath.Base(leaseID)+".json")
}

// begin records that work begins under a lease. It is called before the work.
func (s *state) begin(e journalEntry) error {
	raw, err := json.Marshal(e)
	if err != nil {
		return err
	}
	return writeDurably(s.entryPath(e.LeaseID), raw)
}

// begun reports whether this or an earlier process began work under the lease.
func (s *state) begun(leaseID string) bool {
	_, err := os.Stat(s.entryPath(leaseID))
	return err == nil
}

// removeEntry removes the entry of a lease that has ended. The removal need not be
// durable, because the server never returns such a lease.
func (s *state) removeEntry(leaseID string) { _ = os.Remove(s.entryPath(leaseID)) }

// sweep removes entries of leases that must have ended, and temporary files that a
// crash left.
func (s *state) sweep(now time.Time, older time.Duration) {
	for _, pattern := range []string{"leases/*.json", "leases/" + durable.TempPattern, "outbox/" + durable.TempPattern, durable.TempPattern} {
		paths, _ := filepath.Glob(filepath.Join(s.dir, filepath.FromSlash(pattern)))
		for _, path := range paths {
			info, err := os.Stat(path)
			temporary := filepath.Base(pattern) == durable.TempPattern
			if err == nil && (temporary || now.Sub(info.ModTime()) > older) {
				_ = os.Remove(path)
			}
		}
	}
}
