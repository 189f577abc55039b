package claude

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/durable"
	"github.com/bloom-runtime/bloom/internal/workspace"
)

// Workspaces keeps the working folders of contexts where other workers find them. Its
// methods are called under the task's lease.
type Workspaces interface {
	// State says what is kept of the folder of the task's context.
	State(ctx context.Context, task bloom.Task) (bloom.WorkspaceState, error)
	// Open streams it, a tar archive in zstd frames. The caller closes it.
	Open(ctx context.Context, task bloom.Task) (io.ReadCloser, error)
	// Put adds a part, one zstd frame. It counts with the task's completion.
	Put(ctx context.Context, task bloom.Task, frame []byte) (bloom.TranscriptPart, error)
}

// workspaceTime bounds the moving of one folder.
const workspaceTime = 10 * time.Minute

var workspaceLimits = workspace.Limits{Bytes: bloom.MaxWorkspace, Entries: bloom.MaxWorkspaceFiles}

// workspaceNote is what this machine knows of a context's folder. It is written before a
// task begins in it and after one has ended well: without Clean, a task has changed the
// folder that has not.
type workspaceNote struct {
	ContextID string `json:"context_id"`
	// SHA256 is the snapshot that the folder is, and Base the one that the server has
	// when it could not be given the folder; both may be empty.
	SHA256 string `json:"sha256"`
	Base   string `json:"base"`
	Ahead  bool   `json:"ahead"` // of Base
	Clean  bool   `json:"clean"`
}

// workspaceOf is the context's own folder.
func (c Config) workspaceOf(contextID string) string {
	sum := sha256.Sum256([]byte(contextID))
	return filepath.Join(c.Workdir, "ctx-"+hex.EncodeToString(sum[:8]))
}

func (c Config) workspaceNotePath(contextID string) string {
	sum := sha256.Sum256([]byte(contextID))
	return filepath.Join(c.StateDir, "workspaces", hex.EncodeToString(sum[:])+".json")
}

func (c Config) workspaceNote(contextID string) (*workspaceNote, error) {
	raw, err := readNote(c.workspaceNotePath(contextID))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // there is none
	}
	n := &workspaceNote{}
	if errors.Is(err, workspace.ErrNotRegular) || err == nil && json.Unmarshal(raw, n) != nil {
		return &workspaceNote{}, nil // damaged: the folder is not believed
	}
	return n, err
}

func (c Config) noteWorkspace(n workspaceNote) error {
	path := c.workspaceNotePath(n.ContextID)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return durable.Replace(path, bloom.MustJSON(n))
}

// moving reports whether the task's working folder moves with its context.
func (t *taskRun) moving() bool {
	return t.task.Policy.Workspace == bloom.WorkspaceContext && t.config.Workspaces != nil
}

// settleWorkspace makes the context's folder what the last completion left: where the
// server has another one than this machine, it is restored.
func (t *taskRun) settleWorkspace(ctx context.Context) error {
	if !t.moving() {
		return nil
	}
	if !t.first {
		t.emit.warn("workspace_shared", "another task of this context is running in the same folder; what this one writes is kept with that one's")
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, workspaceTime)
	defer cancel()
	st, err := t.config.Workspaces.State(ctx, t.task)
	if err != nil {
		return err
	}
	note, err := t.config.workspaceNote(t.task.ContextID)
	if err != nil {
		return err
	}
	switch {
	case note == nil && st.SHA256 == "": // what lies there already is the beginning
	case note != nil && note.Clean && (!note.Ahead && note.SHA256 == st.SHA256 || note.Ahead && note.Base == st.SHA256) && isDir(t.workdir):
	default:
		if err := t.restoreWorkspace(ctx, st); err != nil {
			return err
		}
	}
	t.snapshot = st.SHA256
	return t.config.noteWorkspace(workspaceNote{ContextID: t.task.ContextID, SHA256: st.SHA256})
}

func isDir(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.IsDir()
}

// restoreWorkspace puts the folder that the server has in its place, whole or not at all.
func (t *taskRun) restoreWorkspace(ctx context.Context, st bloom.WorkspaceState) error {
	t.runner.pool.evict(t.task.ContextID) // its process stands in the folder
	fresh, old := t.workdir+".restoring", t.workdir+".replaced"
	for _, dir := range []string{fresh, old} {
		if err := workspace.Remove(ctx, dir); err != nil {
			return err
		}
	}
	if err := os.Mkdir(fresh, 0o755); err != nil {
		return err
	}
	entries := 0
	if st.SHA256 != "" {
		var err error
		if entries, err = t.unpackWorkspace(ctx, fresh, st); err != nil {
			return errors.Join(err, workspace.Remove(context.WithoutCancel(ctx), fresh))
		}
	}
	if err := os.Rename(t.workdir, old); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Rename(fresh, t.workdir); err != nil {
		return err
	}
	t.emit.send(EventWorkspaceRestored, data{"bytes": st.Size, "entries": entries})
	return workspace.Remove(ctx, old)
}

func (t *taskRun) unpackWorkspace(ctx context.Context, dir string, st bloom.WorkspaceState) (entries int, err error) {
	frames, err := t.config.Workspaces.Open(ctx, t.task)
	if err != nil {
		return 0, err
	}
	defer frames.Close()
	from, err := unpackParts(frames)
	if err != nil {
		return 0, err
	}
	defer from.Close()
	sum := sha256.New()
	entries, err = workspace.Unpack(ctx, io.TeeReader(from, sum), dir, workspaceLimits)
	if err == nil && hexSum(sum) != st.SHA256 {
		err = errors.New("it is not what was kept")
	}
	return entries, err
}

// keepWorkspace gives the server what a task that ended well has made of the folder, for
// the completion to name it.
func (t *taskRun) keepWorkspace(ctx context.Context, v verdict) *bloom.WorkspaceUpdate {
	if !t.moving() || !t.first || !v.ok || v.release || errors.Is(context.Cause(ctx), bloom.ErrLeaseGone) {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), workspaceTime)
	defer cancel()
	update, err := t.packWorkspace(ctx)
	note := workspaceNote{ContextID: t.task.ContextID, SHA256: t.snapshot, Clean: true}
	switch {
	case err != nil:
		t.config.Log.Warn("a context's working folder could not be given to the server", "context_id", t.task.ContextID, "error", err)
		t.emit.warn("workspace_not_kept", "the working folder could not be given to the server; until a later turn's is, only this worker has it: "+err.Error())
		note.Base, note.Ahead = t.snapshot, true
	case update != nil:
		note.SHA256 = update.SHA256
	}
	if err := t.config.noteWorkspace(note); err != nil {
		t.config.Log.Error("note working folder", "error", err)
	}
	return update
}

// packWorkspace uploads the folder unless it is as it was.
func (t *taskRun) packWorkspace(ctx context.Context) (*bloom.WorkspaceUpdate, error) {
	if t.snapshot != "" {
		sum := sha256.New()
		if _, err := workspace.Pack(ctx, sum, t.workdir, workspaceLimits); err != nil || hexSum(sum) == t.snapshot {
			return nil, err
		}
	}
	parts, err := newPartWriter(func(frame []byte) (bloom.TranscriptPart, error) { return t.config.Workspaces.Put(ctx, t.task, frame) })
	if err != nil {
		return nil, err
	}
	sum, size := sha256.New(), counter(0)
	packed, err := workspace.Pack(ctx, io.MultiWriter(parts, sum, &size), t.workdir, workspaceLimits)
	if err != nil {
		return nil, err
	}
	u := &bloom.WorkspaceUpdate{Size: int64(size), SHA256: hexSum(sum), After: t.snapshot}
	if u.Parts, err = parts.close(); err != nil {
		return nil, err
	}
	if packed.Skipped > 0 {
		t.emit.warn("workspace_skipped", fmt.Sprintf("%d files stay on this worker: they cannot be read, are no files, or are links that lead out of the folder, such as %q",
			packed.Skipped, packed.Examples))
	}
	t.emit.send(EventWorkspaceKept, data{"bytes": u.Size, "entries": packed.Entries})
	return u, nil
}

// counter counts bytes.
type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}
