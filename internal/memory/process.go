package memory

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// temporaryPattern matches the temporary files next to a database. Doctor removes those
// that a crash left.
const temporaryPattern = ".bloom-memory-*.tmp"

// leftovers returns the temporary files and folders that are no longer used according to gone.
func (p *Project) leftovers(gone func(path string) bool) []string {
	files, _ := filepath.Glob(filepath.Join(filepath.Dir(p.DB), temporaryPattern))
	halves, _ := filepath.Glob(filepath.Join(p.BackupFolder(), incompletePrefix+"*"))
	return slices.DeleteFunc(append(files, halves...), func(path string) bool { return !gone(path) })
}

// temporary creates an empty file next to the database that only its owner may read. Its name
// has the process id.
func (p *Project) temporary(what string) (string, error) {
	for _, path := range p.leftovers(p.overdue) {
		_ = os.RemoveAll(path) // the next push or pull tries again
	}
	f, err := os.CreateTemp(filepath.Dir(p.DB), ".bloom-memory-"+what+"-"+strconv.Itoa(os.Getpid())+"-*.tmp")
	if err != nil {
		return "", err
	}
	return f.Name(), f.Close()
}

// abandoned reports whether the process that created a temporary file or folder has ended,
// or has used it for longer than a push or pull may take.
func (p *Project) abandoned(path string) bool {
	if p.overdue(path) {
		return true
	}
	parts := strings.Split(filepath.Base(path), "-")
	if len(parts) < 2 {
		return false
	}
	pid, err := strconv.Atoi(parts[len(parts)-2])
	return err == nil && !alive(pid)
}

// overdue reports whether a temporary file is older than a push or pull may take.
func (p *Project) overdue(path string) bool {
	info, err := os.Stat(path)
	return err == nil && p.Now().Sub(info.ModTime()) > p.LockTTL+p.LockGrace
}

// alive reports whether a process may be running. Another process may have got its id.
func alive(pid int) bool {
	if pid <= 0 {
		return true
	}
	proc, err := os.FindProcess(pid)
	if err != nil {
		return false
	}
	err = proc.Signal(syscall.Signal(0))
	return err == nil || errors.Is(err, os.ErrPermission)
}

// thisBoot identifies the machine since its last start. It is empty if that is unknown.
var thisBoot = sync.OnceValue(func() string {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return digest16(string(boot))
})

// bootTime returns when the machine was started, by its clock; zero if that is unknown.
func (p *Project) bootTime() time.Time {
	text, err := os.ReadFile("/proc/uptime")
	var seconds float64
	if _, scanErr := fmt.Sscan(string(text), &seconds); err != nil || scanErr != nil {
		return time.Time{}
	}
	return p.Now().Add(-time.Duration(seconds * float64(time.Second)))
}

// digest16 returns the first 16 hex digits of the SHA-256 of text.
func digest16(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])[:16]
}

// lockFile locks a file next to the database, until unlock is called or the process ends in
// whatever way, and identifies it. The id is empty if another push has locked it, or the file
// system has no locks.
func (p *Project) lockFile() (id string, unlock func()) {
	f, err := os.OpenFile(filepath.Join(filepath.Dir(p.DB), "."+filepath.Base(p.DB)+".push-lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return "", func() {}
	}
	var stat syscall.Stat_t
	err = errors.Join(syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB), syscall.Fstat(int(f.Fd()), &stat))
	if err == nil && thisBoot() != "" {
		id = digest16(fmt.Sprint(thisBoot(), stat.Dev, stat.Ino))
	}
	return id, func() { f.Close() }
}

// dead reports whether the push that holds the lock is known to be dead: it ran on this
// node, and the machine was restarted since, or this process has locked its file. Even a push
// in another container, whose processes cannot be seen, unlocks the file when it is killed. The
// earlier script, whose locks have no nonce, never removes its own.
func (p *Project) dead(l Lock, file string) bool {
	if l.Timestamp == 0 || l.Holder != p.Node {
		return false
	}
	restarted := l.Boot != "" && thisBoot() != "" && l.Boot != thisBoot()
	if l.Boot == "" { // an earlier version
		restarted = time.Unix(l.Timestamp, 0).Before(p.bootTime())
	}
	return restarted || l.Nonce == "" || file != "" && l.File == file
}

// stale reports whether the lock is no longer valid: its push is dead or has ended, it is too
// old, or its time is implausibly far in the future. file is the id of the locked file.
func (p *Project) stale(l Lock, file string) bool {
	_, ended := p.ended.Load(l.Nonce)
	return ended || p.dead(l, file) || p.Now().Sub(time.Unix(l.Timestamp, 0)).Abs() > p.LockTTL+p.LockGrace
}

// left reports whether a push that has ended left the lock.
func (p *Project) left(l Lock) bool {
	file, unlock := p.lockFile()
	defer unlock()
	return p.stale(l, file)
}
