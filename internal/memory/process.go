package memory

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// temporaryPattern matches the temporary files next to a database. Doctor removes those
// that a crash left.
const temporaryPattern = ".bloom-memory-*.tmp"

// temporary creates an empty file next to path that only its owner may read. Its name has
// the process id.
func temporary(path, what string) (string, error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".bloom-memory-"+what+"-"+strconv.Itoa(os.Getpid())+"-*.tmp")
	if err != nil {
		return "", err
	}
	return f.Name(), f.Close()
}

// abandoned reports whether the process that created a temporary file or folder has ended,
// or has used it for longer than a push or pull may take.
func (p *Project) abandoned(path string) bool {
	info, err := os.Stat(path)
	if err != nil {
		return false
	}
	if p.Now().Sub(info.ModTime()) > p.LockTTL+p.LockGrace {
		return true
	}
	parts := strings.Split(filepath.Base(path), "-")
	if len(parts) < 2 {
		return false
	}
	pid, err := strconv.Atoi(parts[len(parts)-2])
	return err == nil && !alive(pid)
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

// thisMachine identifies the machine since its last start, and the container, to which a
// process id belongs. It is empty if that is unknown.
var thisMachine = sync.OnceValue(func() string {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	space, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(append(boot, space...))
	return hex.EncodeToString(sum[:])[:16]
})

// dead reports whether the push that holds the lock is known to be dead: it ran on this
// node, and its process has ended.
func (p *Project) dead(l Lock) bool {
	return l.Timestamp != 0 && l.Holder == p.Node && l.Machine != "" && l.Machine == thisMachine() && !alive(l.PID)
}

// stale reports whether the lock is no longer valid: its push is dead, it is too old, or
// its time is implausibly far in the future.
func (p *Project) stale(l Lock) bool {
	return p.dead(l) || p.Now().Sub(time.Unix(l.Timestamp, 0)).Abs() > p.LockTTL+p.LockGrace
}
