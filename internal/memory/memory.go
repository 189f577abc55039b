// Package memory synchronizes a project's memory, the SQLite database of Claude's memory
// plugin, between nodes through object storage. One node, the primary, is the source of
// truth: it pushes, the others pull.
//
// In the bucket, below projects/<canonical id>/:
//
//	sqlite/claude-mem.db          the database, for other tools
//	sqlite/claude-mem.db.sha256   its SHA-256
//	sqlite/versions/<sha256>.db   the same content under an immutable name
//	sqlite/manifest.json          describes the last push; written last
//	locks/active.lock             who is pushing
//	leadership/lease.json         which node is primary
//	leadership/audit/…            the latest changes of the lease
//
// The manifest alone determines the current memory. It is replaced by compare-and-set,
// so that only one of two concurrent pushes succeeds, and an interrupted push changes
// nothing. The package knows neither tasks nor workers.
package memory

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"sync"
	"time"

	"github.com/bloom-runtime/bloom/internal/objects"
)

// Defaults of Config.
const (
	DefaultLockTTL     = 2 * time.Hour
	DefaultLockGrace   = time.Minute
	DefaultLease       = time.Hour
	DefaultBackupAge   = 14 * 24 * time.Hour
	DefaultBackupCount = 50
)

// Config describes a project's memory and where it is stored.
type Config struct {
	// Project is the project's name; its canonical id is derived from it.
	Project string
	// Node names this machine.
	Node string
	// DB is the path of the memory plugin's database.
	DB string
	// Bucket holds the memory of all projects.
	Bucket *objects.Bucket

	// LockTTL is how long a push may take before others consider it dead, and LockGrace
	// how much longer they wait. Zero means the defaults; a negative LockGrace means none.
	LockTTL, LockGrace time.Duration
	// ForcePush takes the lock even if another push holds it.
	ForcePush bool

	// IgnoreLeadership lets every node push and pull.
	IgnoreLeadership bool
	// Lease is how long a leadership lease lasts; zero means DefaultLease.
	Lease time.Duration
	// Primary is the node that becomes primary if there is none; empty means the first
	// one that asks.
	Primary string
	// SecondaryMayPush and PrimaryMayPull disable the two rules that protect the memory.
	SecondaryMayPush, PrimaryMayPull bool

	// BackupAge and BackupCount limit the safety backups of pulls. Zero means the
	// defaults.
	BackupAge   time.Duration
	BackupCount int

	// FreeDisk returns the free disk space of a folder for this user, in bytes; nil means that
	// the operating system is asked.
	FreeDisk func(dir string) (uint64, error)
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Progress, if set, is called at the beginning of each step.
	Progress func(step string)
	// Point, if set, is called between any two writes, where tests simulate a crash.
	Point func(name string)
}

// Project is one project's memory on this node. Its methods are safe for concurrent use,
// also by several processes.
type Project struct {
	Config

	id string
	// expected, if not empty, is the SHA-256 of the only local database that a pull may
	// overwrite.
	expected string
	// ended has the nonces of own locks that the storage may still have, although their
	// pushes have ended.
	ended *sync.Map
}

// New validates a Config and fills in its defaults.
func New(c Config) (*Project, error) {
	switch {
	case c.Project == "":
		return nil, errors.New("no project: set CLAUDE_PROJECT_ID or --project")
	case c.Node == "":
		return nil, errors.New("this node has no name: set MEMBRIDGE_NODE_ID or --node")
	case c.DB == "":
		return nil, errors.New("no database: set CLAUDE_MEM_DB or --db")
	case c.Bucket == nil:
		return nil, errors.New("no object storage")
	}
	db, err := resolve(c.DB)
	if err != nil {
		return nil, err
	}
	c.DB = db
	c.LockTTL = cmp.Or(c.LockTTL, DefaultLockTTL)
	c.LockGrace = max(0, cmp.Or(c.LockGrace, DefaultLockGrace))
	c.Lease = cmp.Or(c.Lease, DefaultLease)
	c.BackupAge = cmp.Or(c.BackupAge, DefaultBackupAge)
	c.BackupCount = cmp.Or(c.BackupCount, DefaultBackupCount)
	if c.FreeDisk == nil {
		c.FreeDisk = freeDisk
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Progress == nil {
		c.Progress = func(string) {}
	}
	if c.Point == nil {
		c.Point = func(string) {}
	}
	return &Project{Config: c, id: CanonicalID(c.Project), ended: &sync.Map{}}, nil
}

// resolve resolves symbolic links. SQLite keeps its logs next to the file itself, and a
// rename must not replace a link to the file.
func resolve(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	info, err := os.Lstat(abs)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return abs, nil // the folder may not exist either
	case err != nil:
		return "", fmt.Errorf("the database: %w", err)
	case info.Mode()&fs.ModeSymlink != 0:
		if abs, err = filepath.EvalSymlinks(abs); err != nil {
			return "", fmt.Errorf("the database is a broken symbolic link: %w", err)
		}
		if info, err = os.Stat(abs); err != nil {
			return "", fmt.Errorf("the database: %w", err)
		}
	}
	if !info.Mode().IsRegular() {
		return "", fmt.Errorf("the database %s is not a regular file", abs)
	}
	return abs, nil
}

// CanonicalID returns a project's id in the bucket and at the control plane: the first 16
// hex digits of the SHA-256 of its name.
func CanonicalID(project string) string {
	return digest16(project)
}

// ID returns the project's canonical id.
func (p *Project) ID() string { return p.id }

func (p *Project) key(parts ...string) string {
	return path.Join(append([]string{"projects", p.id}, parts...)...)
}

func (p *Project) versionKey(sha string) string { return p.key("sqlite", "versions", sha+".db") }

// WithProgress returns a copy of the project with another Progress.
func (p *Project) WithProgress(progress func(step string)) *Project {
	other := *p
	other.Progress = progress
	return &other
}

// Exit codes for the two rules that protect a memory. They are those of the earlier tool.
const (
	ExitPrimaryDiffers = 2
	ExitNotPrimary     = 3
)

// ExitCode returns the program's exit code for a push or pull that returned err.
func ExitCode(err error) int {
	switch {
	case err == nil:
		return 0
	case errors.As(err, new(*PrimaryDiffersError)):
		return ExitPrimaryDiffers
	case errors.As(err, new(*NotPrimaryError)):
		return ExitNotPrimary
	}
	return 1
}
