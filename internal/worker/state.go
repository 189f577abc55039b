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
	"time"

	"github.com/bloom-runtime/bloom/internal/durable"
)

// state is the worker's folder. Its lock is held while the process lives.
type state struct {
	dir      string
	instance string
	copied   bool // the folder was copied from where its instance lives, or lived
	lock     *os.File
	// forgotten is how far contexts were forgotten here.
	forgotten *progress
}

// ErrStateInUse says that another living process uses the state folder.
var ErrStateInUse = errors.New("another worker process uses this state folder; stop it, or give this one a folder of its own")

// openState locks the folder and reads who we are. The instance id is the
// folder's, not the process's: a restarted worker is the same instance, so the
// runtime takes it back at once and hands it what its earlier life held.
func openState(dir string) (*state, error) {
	for _, d := range []string{dir, filepath.Join(dir, "leases"), filepath.Join(dir, "outbox"), filepath.Join(dir, "outbox", "refused")} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return nil, fmt.Errorf("worker: state folder: %w", err)
		}
	}
	lock, err := lockFile(filepath.Join(dir, "lock"))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	s := &state{dir: dir, lock: lock}
	if s.instance, err = s.identity(); err != nil {
		lock.Close()
		return nil, err
	}
	s.forgotten = openProgress(filepath.Join(dir, "forgotten"))
	return s, nil
}

func (s *state) close() { s.lock.Close() }

// identity reads the instance id, or makes one. The file's second line says which
// folder the id was made for: a copy of the folder is another instance, which the
// server refuses while the first is alive.
func (s *state) identity() (string, error) {
	path := filepath.Join(s.dir, "instance")
	raw, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("worker: read the instance id: %w", err)
	}
	own, err := s.fingerprint()
	if err != nil {
		return "", fmt.Errorf("worker: state folder: %w", err)
	}
	id, made, _ := strings.Cut(strings.TrimSpace(string(raw)), "\n")
	s.copied = id != "" && made != "" && made != own
	if id == "" || s.copied {
		id = rand.Text()
	}
	if made == own {
		return id, nil
	}
	return id, writeDurably(path, []byte(id+"\n"+own+"\n"))
}

// fingerprint tells this folder from a copy of it: by the inode of the lock, which
// is never replaced, and by the machine. Not by the device, whose number may change
// when the machine starts.
func (s *state) fingerprint() (string, error) {
	inode, err := inodeOf(s.lock)
	if err != nil {
		return "", err
	}
	machine, _ := os.ReadFile("/etc/machine-id") // not every system has one
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %s", inode, bytes.TrimSpace(machine)))
	return hex.EncodeToString(sum[:16]), nil
}

// writeDurably puts a file in place whole, or not at all, and returns when it
// would survive a power failure.
func writeDurably(path string, data []byte) error {
	if err := durable.Replace(path, data); err != nil {
		return fmt.Errorf("worker: write %s: %w", filepath.Base(path), err)
	}
	return nil
}

// probeSize is the room that the state folder must have before work is begun again:
// not only for the next note, but for an outcome.
const probeSize = 1 << 20

// probe reports why the state folder cannot be written, nil when it can.
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

// note is the journal's entry of a lease whose work was begun.
type note struct {
	TaskID  string `json:"task_id"`
	LeaseID string `json:"lease_id"`
	BegunAt int64  `json:"begun_at"` // Unix milliseconds
}

func (s *state) notePath(leaseID string) string {
	return filepath.Join(s.dir, "leases", filepath.Base(leaseID)+".json")
}

// begin records, before the work starts, that it was begun under this lease.
func (s *state) begin(n note) error {
	raw, err := json.Marshal(n)
	if err != nil {
		return err
	}
	return writeDurably(s.notePath(n.LeaseID), raw)
}

// begun reports whether this or an earlier life began work under the lease.
func (s *state) begun(leaseID string) bool {
	_, err := os.Stat(s.notePath(leaseID))
	return err == nil
}

// settle forgets a lease that is over. Should the removal be lost with the
// power, nothing is harmed: a lease that is over never comes back.
func (s *state) settle(leaseID string) { _ = os.Remove(s.notePath(leaseID)) }

// sweep forgets notes of leases that can no longer be handed back, and files
// that a crash left half written.
func (s *state) sweep(now time.Time, older time.Duration) {
	for _, pattern := range []string{"leases/*.json", "leases/" + durable.TempPattern, "outbox/" + durable.TempPattern, durable.TempPattern} {
		paths, _ := filepath.Glob(filepath.Join(s.dir, filepath.FromSlash(pattern)))
		for _, path := range paths {
			info, err := os.Stat(path)
			half := filepath.Base(pattern) == durable.TempPattern
			if err == nil && (half || now.Sub(info.ModTime()) > older) {
				_ = os.Remove(path)
			}
		}
	}
}
