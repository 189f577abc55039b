package claude

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/durable"
	"github.com/bloom-runtime/bloom/internal/storable"
	"github.com/bloom-runtime/bloom/internal/workspace"
)

// workspaceRecord is this machine's record of a context's folder. It is written before a
// task begins in the folder, and again with Clean after it has succeeded.
type workspaceRecord struct {
	ContextID string `json:"context_id"`
	// SHA256 is the snapshot of the folder. Ahead means that the folder has files that the
	// server, with the snapshot Base, does not have. Both snapshots may be empty. LeaseID is
	// the lease of the task that wrote the files. It is removed if Ahead is set and the
	// task's outcome was accepted. Earlier means that some of the files are of a task before
	// that one, whose outcome was accepted.
	SHA256  string `json:"sha256"`
	Base    string `json:"base"`
	Ahead   bool   `json:"ahead"`
	Earlier bool   `json:"earlier,omitempty"`
	Clean   bool   `json:"clean"`
	LeaseID string `json:"lease_id,omitempty"`
	// Folder is the path of the folder and Inode its number there. Process is the runner
	// that wrote the record: the files on disk may be older if it no longer runs.
	Folder  string `json:"folder"`
	Inode   uint64 `json:"inode"`
	Process string `json:"process"`
}

// onlyHere reports whether files of an accepted outcome were not uploaded.
func (n workspaceRecord) onlyHere() bool {
	return n.Ahead && n.SHA256 == n.Base && (n.Earlier || n.LeaseID == "")
}

// workspaceOf returns the context's own folder.
func (c Config) workspaceOf(contextID string) string {
	sum := sha256.Sum256([]byte(contextID))
	return filepath.Join(c.Workdir, "ctx-"+hex.EncodeToString(sum[:8]))
}

func (c Config) workspaceRecordPath(contextID string) string {
	sum := sha256.Sum256([]byte(contextID))
	return filepath.Join(c.StateDir, "workspaces", hex.EncodeToString(sum[:])+".json")
}

func (c Config) workspaceRecord(contextID string) (*workspaceRecord, error) {
	raw, err := readRecord(c.workspaceRecordPath(contextID))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // nil means none
	}
	n := &workspaceRecord{}
	if errors.Is(err, workspace.ErrNotRegular) || err == nil && json.Unmarshal(raw, n) != nil {
		return &workspaceRecord{}, nil // damaged: the folder will be restored
	}
	return n, err
}

func (c Config) saveWorkspaceRecord(n workspaceRecord) error {
	path := c.workspaceRecordPath(n.ContextID)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return durable.Replace(path, storable.MustJSON(n))
}

// inode returns the number of a folder, 0 if there is none.
func inode(path string) uint64 {
	info, err := os.Lstat(path)
	if err != nil || !info.IsDir() {
		return 0
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return stat.Ino
	}
	return 0
}

// matches reports whether the folder is the one of the record, as the record says, and
// belongs to the server's version. It compares the content unless this process left the
// folder so: a power failure keeps the record, which is synced, but not all files. The
// files of a version that the server does not have are synced, too. They are never
// discarded for what an attempt that does not count has added.
func (t *taskRun) matches(ctx context.Context, note workspaceRecord, st bloom.WorkspaceState) bool {
	if t.inode == 0 || note.Folder != "" && note.Folder != t.workdir {
		return false
	}
	if note.Ahead && note.Base == st.SHA256 {
		counts := note.Clean && note.LeaseID == ""
		if t.ahead = counts || note.Earlier; t.ahead && !counts {
			t.emit.warn("workspace_unfinished", "only this worker has the working folder, so what an attempt that does not count wrote to it is still there")
		}
		return t.ahead
	}
	if !note.Clean || note.SHA256 != st.SHA256 {
		return false
	}
	if note.Process == t.runner.id && note.Inode == t.inode {
		return true
	}
	sum, err := t.folderSum(ctx)
	return err == nil && sum == st.SHA256
}

// folderSum returns the snapshot of the folder.
func (t *taskRun) folderSum(ctx context.Context) (string, error) {
	sum := sha256.New()
	_, err := workspace.Pack(ctx, sum, t.workdir, workspaceLimits)
	return hexSum(sum), err
}
