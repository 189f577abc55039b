package claude

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/durable"
	"github.com/bloom-runtime/bloom/internal/workspace"
)

// Workspaces stores the working folders of contexts for all workers. Its methods are called
// under the task's lease. State and Open fail with ErrUnavailable if the server is unavailable.
type Workspaces interface {
	// State returns the stored version of the folder of the task's context.
	State(ctx context.Context, task bloom.Task) (bloom.WorkspaceState, error)
	// Open opens that version, a tar archive in zstd frames. The caller closes it.
	Open(ctx context.Context, task bloom.Task) (io.ReadCloser, error)
	// Put uploads a part, one zstd frame. The task's completion then names it.
	Put(ctx context.Context, task bloom.Task, frame []byte) (bloom.TranscriptPart, error)
}

// workspaceTimeout is how long the transfer of one folder may take.
const workspaceTimeout = 10 * time.Minute

// maxWorkspaceFiles is the most files, folders and links in a snapshot of a working folder.
const maxWorkspaceFiles = 100_000

var workspaceLimits = workspace.Limits{Bytes: bloom.MaxWorkspace, Entries: maxWorkspaceFiles}

// moving reports whether the task's working folder moves with its context.
func (t *taskRun) moving() bool {
	return t.task.Policy.Workspace == bloom.WorkspaceContext && t.config.Workspaces != nil
}

// syncWorkspace restores the context's folder unless it is as the last completed task left
// it.
func (t *taskRun) syncWorkspace(ctx context.Context) error {
	if !t.moving() {
		return nil
	}
	if !t.exclusive {
		t.emit.warn("workspace_shared", "another task of this context is running in the same folder; the files of both are saved when that task completes")
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, workspaceTimeout)
	defer cancel()
	note, err := t.config.workspaceRecord(t.task.ContextID)
	if err != nil {
		return err
	}
	if note != nil && (note.Clean || note.Ahead) && t.inode == 0 {
		if note.onlyHere() {
			t.emit.warn("workspace_lost", "the working folder is missing on this worker, and files of the last task were only there")
		}
		// If this attempt ends before the folder is restored, the next one must know.
		note.ContextID, note.Clean, note.Ahead = t.task.ContextID, false, false
		if err := t.config.saveWorkspaceRecord(*note); err != nil {
			return err
		}
	}
	var st bloom.WorkspaceState
	if err := whenAvailable(ctx, func() (err error) {
		st, err = t.config.Workspaces.State(ctx, t.task)
		return err
	}); err != nil {
		return err
	}
	switch {
	case note == nil && st.SHA256 == "": // the first task: use the folder as it is
	case note != nil && t.matches(ctx, *note, st):
	case ctx.Err() != nil:
		return context.Cause(ctx)
	default:
		if err := t.fetchWorkspace(ctx, &st, note != nil && note.onlyHere()); err != nil {
			return err
		}
	}
	if st.OnlyOn != "" && !t.ahead {
		t.emit.warn("workspace_missing", fmt.Sprintf("only worker %s has the working folder as the context's last task left it; this task starts with the version before, or an empty folder", st.OnlyOn))
	}
	t.snapshot = st.SHA256
	return t.config.saveWorkspaceRecord(workspaceRecord{
		ContextID: t.task.ContextID, SHA256: st.SHA256, Base: st.SHA256, Ahead: t.ahead, Earlier: t.ahead, Folder: t.workdir,
	})
}

// fetchWorkspace restores the server's version of the folder, which may be a newer one than st
// says. With keep, the files that are in the folder now are kept beside it.
func (t *taskRun) fetchWorkspace(ctx context.Context, st *bloom.WorkspaceState, keep bool) error {
	waiting, cancel := context.WithTimeout(ctx, transferTimeout)
	defer cancel()
	return retryDownload(waiting, func(from *download) error { return t.restoreWorkspace(ctx, *st, from, keep) }, func() (changed bool, err error) {
		now, err := t.config.Workspaces.State(ctx, t.task)
		if changed = err == nil && now.SHA256 != st.SHA256; changed {
			*st = now
		}
		return changed, err
	})
}

// restoreWorkspace atomically replaces the folder by the server's version.
func (t *taskRun) restoreWorkspace(ctx context.Context, st bloom.WorkspaceState, from *download, keep bool) error {
	t.runner.pool.evict(t.task.ContextID) // its process runs in the folder
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
		if entries, err = t.unpackWorkspace(ctx, fresh, st, from); err != nil {
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
	if keep && inode(old) != 0 {
		kept := t.workdir + keptSuffix + t.config.Clock.Now().UTC().Format("20060102T150405.000")
		t.emit.warn("workspace_replaced", "another worker has changed the working folder; its version replaces files that only this worker had, which are now in "+kept)
		return os.Rename(old, kept)
	}
	return workspace.Remove(ctx, old)
}

// keptSuffix begins the suffix of folders whose files only this worker had when another worker's
// version replaced them. They are deleted with their context.
const keptSuffix = ".kept-"

func (t *taskRun) unpackWorkspace(ctx context.Context, dir string, st bloom.WorkspaceState, frames *download) (entries int, err error) {
	if frames.ReadCloser, err = t.config.Workspaces.Open(ctx, t.task); err != nil {
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
		err = errors.New("the folder does not have the stored checksum")
	}
	return entries, err
}

// saveWorkspace uploads the folder of a task that succeeded, and returns the update for its
// completion.
func (t *taskRun) saveWorkspace(ctx context.Context, v verdict) *bloom.WorkspaceUpdate {
	if !t.moving() || !t.exclusive || !v.ok || v.release {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, workspaceTimeout)
	defer cancel()
	update, err := t.packWorkspace(ctx)
	note := workspaceRecord{
		ContextID: t.task.ContextID, SHA256: t.snapshot, Base: t.snapshot, Ahead: err != nil || t.ahead && update != nil, Earlier: t.ahead, Clean: true,
		Folder: t.workdir, Inode: inode(t.workdir), Process: t.runner.id, LeaseID: t.lease(),
	}
	switch {
	case err != nil:
		t.config.Log.Warn("a context's working folder could not be uploaded", "context_id", t.task.ContextID, "error", err)
		t.emit.warn(bloom.NotKept, "the working folder could not be uploaded; until a later task's is, only this worker has it: "+err.Error())
		err = nil
	case update != nil:
		note.SHA256 = update.SHA256
	}
	if note.Ahead { // nothing else shows whether the files survived a power failure
		err = durable.SyncTree(t.workdir)
	}
	if err == nil {
		err = t.config.saveWorkspaceRecord(note)
	}
	if err != nil {
		t.config.Log.Error("the record of a context's working folder could not be written", "context_id", t.task.ContextID, "error", err)
	}
	return update
}

// packWorkspace uploads the folder if it has changed.
func (t *taskRun) packWorkspace(ctx context.Context) (*bloom.WorkspaceUpdate, error) {
	if t.snapshot != "" {
		if sum, err := t.folderSum(ctx); err != nil || sum == t.snapshot {
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
	if packed.Entries == 0 && t.snapshot == "" {
		return nil, nil //nolint:nilnil // nothing to save; another worker may have files that it could not upload
	}
	u := &bloom.WorkspaceUpdate{Size: int64(size), SHA256: hexSum(sum), After: t.snapshot}
	if u.Parts, err = parts.close(); err != nil {
		return nil, err
	}
	if packed.Skipped > 0 {
		t.emit.warn("workspace_skipped", fmt.Sprintf("%d files stay on this worker, because they cannot be read, are not regular files, or are links that lead outside the folder, such as %q",
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
