package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// Memory configures whose memory is synchronized, by which rules, and where it is stored.
type Memory struct {
	ObjectStorage
	MemoryRules
}

// MemorySync configures how often a node synchronizes its memory by itself.
type MemorySync struct {
	Every time.Duration `name:"memory-sync" var:"BLOOM_MEMORY_SYNC" key:"memory_sync" default:"0s" placeholder:"DURATION" help:"How often the project's memory is synchronized: the primary pushes changes, the other nodes pull them. 0: only when membridge requests it."`
}

// Finish validates the setting. m is nil when no memory is synchronized.
func (s *MemorySync) Finish(m *Memory) error {
	switch {
	case s.Every == 0:
	case s.Every < time.Second:
		return fmt.Errorf("--memory-sync: %s is neither 0 nor at least 1s", s.Every)
	case m == nil:
		return errors.New("--memory-sync requires a project (CLAUDE_PROJECT_ID) and object storage (MINIO_ENDPOINT)")
	case !m.Leadership:
		return errors.New("--memory-sync requires leadership, which selects the node that pushes; LEADERSHIP_ENABLED switches it off")
	}
	return nil
}

// MemoryRules configure whose memory is synchronized, and by which rules.
type MemoryRules struct {
	MinioBucket        string `name:"minio-bucket" var:"MINIO_BUCKET" key:"minio_bucket" default:"claude-memory" placeholder:"NAME" help:"Bucket with the memory of all projects."`
	Project            string `name:"project" var:"CLAUDE_PROJECT_ID" key:"claude_project_id" placeholder:"NAME" help:"Name of the project whose memory is synchronized."`
	DB                 string `name:"db" var:"CLAUDE_MEM_DB" key:"claude_mem_db" placeholder:"FILE" help:"The memory plugin's database; default: ~/.claude-mem/claude-mem.db."`
	Node               string `name:"node" var:"MEMBRIDGE_NODE_ID" key:"membridge_node_id" default:"${hostname}" help:"Name of this node."`
	PrimaryNode        string `name:"primary-node" var:"PRIMARY_NODE_ID" key:"primary_node_id" placeholder:"NODE" help:"First primary node of a project that has none; default: the first node that asks."`
	Leadership         bool   `name:"leadership" var:"LEADERSHIP_ENABLED" key:"leadership_enabled" default:"true" negatable:"" help:"Allow only the project's primary node to push."`
	LeaseSeconds       int    `name:"leadership-lease-seconds" var:"LEADERSHIP_LEASE_SECONDS" key:"leadership_lease_seconds" default:"3600" placeholder:"N" help:"How long a leadership lease lasts, in seconds."`
	LockTTLSeconds     int    `name:"lock-ttl-seconds" var:"LOCK_TTL_SECONDS" key:"lock_ttl_seconds" default:"7200" placeholder:"N" help:"Time limit of a push, in seconds; after it the push counts as dead."`
	LockGraceSeconds   int    `name:"stale-lock-grace-seconds" var:"STALE_LOCK_GRACE_SECONDS" key:"stale_lock_grace_seconds" default:"60" placeholder:"N" help:"How long the lock of a dead push is still respected, in seconds."`
	ForcePush          bool   `name:"force-push" aliases:"force" var:"FORCE_PUSH" key:"force_push" help:"Take the lock from a push that may still be running."`
	AllowSecondaryPush bool   `name:"allow-secondary-push" var:"ALLOW_SECONDARY_PUSH" key:"allow_secondary_push" help:"Allow a secondary node to push and overwrite what the primary pushed."`
	AllowPrimaryPull   bool   `name:"allow-primary-pull-override" var:"ALLOW_PRIMARY_PULL_OVERRIDE" key:"allow_primary_pull_override" help:"Allow a pull to overwrite the primary's own memory."`
	BackupMaxDays      int    `name:"pull-backup-max-days" var:"PULL_BACKUP_MAX_DAYS" key:"pull_backup_max_days" default:"14" placeholder:"N" help:"Days for which the safety backups of pulls are kept."`
	BackupMaxCount     int    `name:"pull-backup-max-count" var:"PULL_BACKUP_MAX_COUNT" key:"pull_backup_max_count" default:"50" placeholder:"N" help:"How many safety backups of pulls are kept."`
}

// Finish fills defaults that depend on the machine and validates the result.
func (m *Memory) Finish() error {
	if m.Project == "" {
		return errors.New("--project is missing: name the project whose memory is meant, or set CLAUDE_PROJECT_ID")
	}
	if err := m.ObjectStorage.Finish(); err != nil {
		return err
	}
	return m.MemoryRules.finish()
}

// OfWorker returns the memory that a worker synchronizes, validated; nil without a project or
// object storage.
func (m Memory) OfWorker() (*Memory, error) {
	if m.Project == "" || m.MinioEndpoint == "" {
		return nil, nil
	}
	return &m, m.Finish()
}

func (m *MemoryRules) finish() error {
	for name, n := range map[string]int{"LEADERSHIP_LEASE_SECONDS": m.LeaseSeconds, "LOCK_TTL_SECONDS": m.LockTTLSeconds,
		"PULL_BACKUP_MAX_DAYS": m.BackupMaxDays, "PULL_BACKUP_MAX_COUNT": m.BackupMaxCount} {
		if n < 1 {
			return fmt.Errorf("%s: must be at least 1, not %d", name, n)
		}
	}
	if m.LockGraceSeconds < 0 {
		return fmt.Errorf("STALE_LOCK_GRACE_SECONDS: must not be negative, but is %d", m.LockGraceSeconds)
	}
	if m.DB == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return fmt.Errorf("--db: %w", err)
		}
		m.DB = filepath.Join(home, ".claude-mem", "claude-mem.db")
	}
	return nil
}

// Seconds converts n seconds to a duration.
func Seconds(n int) time.Duration { return time.Duration(n) * time.Second }
