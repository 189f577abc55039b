package claude

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bloom-runtime/bloom/internal/workspace"
)

// Forget starts to delete this machine's data of a context: its sessions with claude's own
// files, its warm process, and its own working folder. The caller
// must call finish. finish waits for a running task of the context, deletes the session and
// renames the folder; until then the context's next task waits. It then removes the folder,
// for which no task waits. It fails when ctx ends; forgetting the context again removes the
// rest.
func (r *Runner) Forget(contextID string) (finish func(ctx context.Context) error) {
	release, idle := r.sessions.reserve(contextID)
	return func(ctx context.Context) error {
		if !idle {
			var err error
			if release, err = r.sessions.await(ctx, contextID); err != nil {
				return err
			}
		}
		err := r.removeContext(contextID)
		release()
		return errors.Join(err, r.removeForgotten(ctx, contextID))
	}
}

// removeContext deletes a context's session and sets its folder aside. It is quick.
func (r *Runner) removeContext(contextID string) error {
	r.pool.evict(contextID)
	if err := r.setWorkspaceAside(contextID); err != nil {
		return err
	}
	saved, _ := r.sessions.load(contextID) // the list has the ids, too
	ids, err := r.sessions.list(contextID)
	ids = append(ids, saved.SessionID)
	if saved.Next != nil {
		ids = append(ids, saved.Next.SessionID)
	}
	own := r.config.workspaceOf(contextID)
	for _, dir := range r.config.claudeFolders(own) {
		err = errors.Join(err, os.RemoveAll(dir)) // with auto-memory
	}
	err = errors.Join(err, r.config.removeSessions(ids, saved.Workdir, r.config.Workdir))
	if err != nil {
		return err // forgetting the context again removes the rest
	}
	return errors.Join(r.sessions.forget(contextID), os.RemoveAll(r.sessions.listPath(contextID)))
}

// claudeFolders returns the folders in which claude stores what belongs to a working folder:
// transcripts and memory, and the output of commands.
func (c Config) claudeFolders(workdir string) []string {
	name, env := projectFolder(workdir), c.environment()
	temp := cmp.Or(lookup(env, "CLAUDE_CODE_TMPDIR"), lookup(env, "TMPDIR"), "/tmp")
	return []string{filepath.Join(c.projectsDir(), name), filepath.Join(temp, fmt.Sprintf("claude-%d", os.Getuid()), name)}
}

// removeSessions removes claude's files of the sessions: everything that begins with the id of
// one in the folders of the working folders, or in a folder of claude's configuration.
func (c Config) removeSessions(ids []string, workdirs ...string) (err error) {
	ids = slices.DeleteFunc(ids, func(id string) bool { return !validSession(id) })
	var dirs []string
	for _, workdir := range workdirs {
		dirs = append(dirs, c.claudeFolders(workdir)...)
	}
	folders, _ := os.ReadDir(c.configDir()) // without it, there is nothing to remove
	for _, folder := range folders {
		if folder.IsDir() {
			dirs = append(dirs, filepath.Join(c.configDir(), folder.Name()))
		}
	}
	for _, dir := range dirs {
		entries, _ := os.ReadDir(dir)
		for _, entry := range entries {
			if slices.ContainsFunc(ids, func(id string) bool { return strings.HasPrefix(entry.Name(), id) }) {
				err = errors.Join(err, os.RemoveAll(filepath.Join(dir, entry.Name())))
			}
		}
	}
	return err
}

// maxForgotten is how many of a context's folders may be waiting to be removed.
const maxForgotten = 16

// forgottenPath returns the name of a forgotten folder until it is removed.
func (c Config) forgottenPath(contextID string, n int) string {
	return fmt.Sprintf("%s.forgotten%d", c.workspaceOf(contextID), n)
}

// setWorkspaceAside renames a context's own folder.
func (r *Runner) setWorkspaceAside(contextID string) error {
	dir, n := r.config.workspaceOf(contextID), 0
	names := []string{dir, dir + ".restoring", dir + ".replaced"}
	entries, err := os.ReadDir(r.config.Workdir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), filepath.Base(dir)+keptSuffix) {
			names = append(names, filepath.Join(r.config.Workdir, entry.Name()))
		}
	}
	for _, name := range names {
		err := os.Rename(name, r.config.forgottenPath(contextID, n))
		for ; errors.Is(err, fs.ErrExist) && n < maxForgotten; n++ { // an earlier one is not removed yet
			err = os.Rename(name, r.config.forgottenPath(contextID, n))
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return os.RemoveAll(r.config.workspaceRecordPath(contextID))
}

// removeForgotten removes the folders that were set aside, now or earlier. It handles one
// context at a time, so that tasks are not slowed down.
func (r *Runner) removeForgotten(ctx context.Context, contextID string) (err error) {
	select {
	case r.removing <- struct{}{}:
		defer func() { <-r.removing }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	for n := range maxForgotten {
		err = errors.Join(err, workspace.Remove(ctx, r.config.forgottenPath(contextID, n)))
	}
	return err
}
