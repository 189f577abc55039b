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

// temporaryPattern is what files are called beside a database until they are in their
// place; doctor removes what a crash left of them.
const temporaryPattern = ".bloom-memory-*.tmp"

// temporary makes an empty file beside path that only its owner may read. Its name says
// which process made it.
func temporary(path, what string) (string, error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".bloom-memory-"+what+"-"+strconv.Itoa(os.Getpid())+"-*.tmp")
	if err != nil {
		return "", err
	}
	return f.Name(), f.Close()
}

// abandoned reports whether the process that made a temporary file or folder is gone, or
// has had it for longer than a push or pull may take.
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

// alive reports whether a process may be running. Another one may have got its number.
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

// thisMachine tells process numbers of this machine since its start, and of this
// container, from those of others. It is empty where that is not known.
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

// dead reports whether the push that holds the lock is known to be dead: it was one of
// this node's, and its process is gone.
func (p *Project) dead(l Lock) bool {
	return l.Timestamp != 0 && l.Holder == p.Node && l.Machine != "" && l.Machine == thisMachine() && !alive(l.PID)
}

// stale reports whether the lock counts no more: it is too old, or from so far in the
// future that no clock is wrong by that much.
func (p *Project) stale(l Lock) bool {
	return p.dead(l) || p.Now().Sub(time.Unix(l.Timestamp, 0)).Abs() > p.LockTTL+p.LockGrace
}
