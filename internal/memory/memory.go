// Package memory moves a project's memory, the SQLite database that Claude's memory
// plugin writes on a node, between nodes through object storage. One node, the
// primary, is the source of truth: it pushes, the others pull.
//
// In the bucket, below projects/<canonical id>/:
//
//	sqlite/claude-mem.db          the database, as other tools read it
//	sqlite/claude-mem.db.sha256   its SHA-256
//	sqlite/versions/<sha256>.db   the same bytes under a name that never changes
//	sqlite/manifest.json          what was pushed last; written last
//	locks/active.lock             who is pushing
//	leadership/lease.json         which node is primary
//	leadership/audit/…            every lease that was written
//
// The manifest alone decides what the memory is. It is changed by compare-and-set,
// so of two nodes that push at once one wins, and a push that dies half-way leaves
// the memory before it. The package knows neither tasks nor workers.
package memory

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"
	"unicode"

	"github.com/bloom-runtime/bloom/internal/objects"
)

// The defaults of the settings.
const (
	DefaultLockTTL     = 2 * time.Hour
	DefaultLockGrace   = time.Minute
	DefaultLease       = time.Hour
	DefaultBackupAge   = 14 * 24 * time.Hour
	DefaultBackupCount = 50
)

// Config says whose memory it is and where it lies.
type Config struct {
	// Project is the project's name; its canonical id is derived from it.
	Project string
	// Node names this machine.
	Node string
	// DB is the path of the memory plugin's database.
	DB string
	// Bucket holds the memory of all projects.
	Bucket *objects.Bucket

	// LockTTL is how long a push may take before others consider it dead, and
	// LockGrace how much longer they wait. Zero means the defaults, a LockGrace below
	// zero none.
	LockTTL, LockGrace time.Duration
	// ForcePush takes the lock from whoever has it.
	ForcePush bool

	// IgnoreLeadership lets every node push and pull.
	IgnoreLeadership bool
	// Lease is how long a leadership lease lasts; zero means DefaultLease.
	Lease time.Duration
	// Primary is the node to become primary when there is none; empty means the first
	// that asks.
	Primary string
	// SecondaryMayPush and PrimaryMayPull lift the two rules that protect the memory.
	SecondaryMayPush, PrimaryMayPull bool

	// BackupAge and BackupCount bound the safety backups that pulls make. Zero means
	// the defaults.
	BackupAge   time.Duration
	BackupCount int

	// FreeDisk tells how much room the disk of a folder has for this user, in bytes; nil means
	// what the operating system says.
	FreeDisk func(dir string) (uint64, error)
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Progress, if set, is told each step as it begins.
	Progress func(step string)
	// Point, if set, is called at each point at which a crash would leave another state than
	// at the one before. It is for tests.
	Point func(name string)
}

// Project is one project's memory on this node. Its methods may be called at the
// same time, by several processes too.
type Project struct {
	Config

	id string
}

// New checks a Config and fills its defaults.
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
	return &Project{Config: c, id: CanonicalID(c.Project)}, nil
}

// resolve follows links: SQLite keeps its logs beside the file itself, and a file that is
// moved into place must not replace a link to it.
func resolve(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	info, err := os.Lstat(abs)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return abs, nil // the folder may not be there either
	case err != nil:
		return "", fmt.Errorf("the database: %w", err)
	case info.Mode()&fs.ModeSymlink != 0:
		if abs, err = filepath.EvalSymlinks(abs); err != nil {
			return "", fmt.Errorf("the database is a link that leads nowhere: %w", err)
		}
		if info, err = os.Stat(abs); err != nil {
			return "", fmt.Errorf("the database: %w", err)
		}
	}
	if !info.Mode().IsRegular() {
		return "", fmt.Errorf("the database %s is no plain file", abs)
	}
	return abs, nil
}

// CanonicalID is the id that a project has in the bucket and on the control plane:
// the first 16 hex digits of its name's SHA-256.
func CanonicalID(project string) string {
	sum := sha256.Sum256([]byte(project))
	return hex.EncodeToString(sum[:])[:16]
}

// ID is the project's canonical id.
func (p *Project) ID() string { return p.id }

func (p *Project) key(parts ...string) string {
	return path.Join(append([]string{"projects", p.id}, parts...)...)
}

func (p *Project) versionKey(sha string) string { return p.key("sqlite", "versions", sha+".db") }

// Manifest says what was pushed last. Version is our addition; without it, in what
// another tool pushed, the bytes lie in claude-mem.db.
type Manifest struct {
	Project      string    `json:"project"`
	CanonicalID  string    `json:"canonical_id"`
	Timestamp    time.Time `json:"timestamp"`
	SourceHost   string    `json:"source_host"`
	Size         int64     `json:"db_size"` // bytes
	SHA256       string    `json:"sha256"`
	Observations int64     `json:"observations"`
	Summaries    int64     `json:"session_summaries"`
	Prompts      int64     `json:"user_prompts"`
	Tables       int64     `json:"tables"`
	Version      string    `json:"version,omitempty"` // key of the bytes, below sqlite/
	// Previous is the version before, which is kept for nodes that are pulling it.
	Previous string `json:"previous,omitempty"`
	// PlainETag is the ETag that claude-mem.db had when the push was complete.
	PlainETag string `json:"plain_etag,omitempty"`
	// Epoch is that of the lease under which it was pushed.
	Epoch int64 `json:"epoch,omitempty"`
}

// remote reads the manifest; nil when nothing was pushed yet.
func (p *Project) remote(ctx context.Context) (*Manifest, string, error) {
	var m Manifest
	etag, err := p.readJSON(ctx, p.key("sqlite", "manifest.json"), &m)
	if errors.Is(err, objects.ErrNotFound) {
		return nil, "", nil
	}
	if err != nil {
		return nil, etag, fmt.Errorf("read the manifest: %w", err)
	}
	if sum, err := hex.DecodeString(m.SHA256); err != nil || len(sum) != sha256.Size {
		return nil, etag, fmt.Errorf("the manifest names no SHA-256: %w", errUnreadable)
	}
	return &m, etag, nil
}

// source is the key of the bytes that m describes.
func (p *Project) source(m *Manifest) string {
	if m.Version != "" && path.Clean(m.Version) == m.Version && !path.IsAbs(m.Version) && m.Version[0] != '.' {
		return p.key("sqlite", m.Version)
	}
	return p.key("sqlite", "claude-mem.db")
}

// errUnreadable says that an object is there and means nothing. It may be replaced.
var errUnreadable = errors.New("it was not written by a tool that knows its form")

// readJSON also returns the ETag of what is there and is errUnreadable.
func (p *Project) readJSON(ctx context.Context, key string, into any) (etag string, err error) {
	info, err := p.Bucket.Stat(ctx, key)
	if err != nil {
		return "", err
	}
	if info.Size > objects.MaxSmall {
		return info.ETag, fmt.Errorf("%s is of %d bytes: %w", key, info.Size, errUnreadable)
	}
	data, info, err := p.Bucket.Read(ctx, key)
	if err != nil {
		return "", err
	}
	if err := json.Unmarshal(data, into); err != nil {
		return info.ETag, fmt.Errorf("%s is no valid JSON (%w): %w", key, err, errUnreadable)
	}
	if t, ok := into.(interface{ tidy() }); ok {
		t.tidy()
	}
	return info.ETag, nil
}

// maxName bounds a name that is read from the bucket, in bytes.
const maxName = 256

// shown is text from the bucket as it may be shown: anybody who can write there could
// write control characters for somebody's terminal.
func shown(text *string) {
	*text = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return -1
	}, strings.ToValidUTF8((*text)[:min(len(*text), maxName)], ""))
}

func (m *Manifest) tidy() {
	shown(&m.Project)
	shown(&m.SourceHost)
	m.SHA256 = strings.ToLower(m.SHA256)
}
func (l *Lock) tidy()  { shown(&l.Holder) }
func (l *Lease) tidy() { shown(&l.PrimaryNode); shown(&l.IssuedBy) }

func (p *Project) swapJSON(ctx context.Context, key string, value any, etag string) (string, error) {
	data, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return "", err
	}
	info, err := p.Bucket.Swap(ctx, key, data, etag)
	return info.ETag, err
}

// Telling is the same project with another Progress.
func (p *Project) Telling(progress func(step string)) *Project {
	other := *p
	other.Progress = progress
	return &other
}

// The exit codes of the two rules that protect a memory, as the earlier tool had them.
const (
	ExitPrimaryDiffers = 2
	ExitNotPrimary     = 3
)

// ExitCode is what the program exits with when a push or pull ended with err.
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
