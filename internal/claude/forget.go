package claude

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/bloom-runtime/bloom/internal/workspace"
)

// Forget starts to delete this machine's data of a context: its session with claude's own
// file, its warm process, and its working folder if that moves with the context. The caller
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
	saved, err := r.sessions.load(contextID)
	if err != nil {
		return errors.Join(err, r.sessions.forget(contextID))
	}
	for _, id := range []string{saved.SessionID, saved.last()} {
		if !validSession(id) {
			continue
		}
		path := r.config.sessionFile(saved.Workdir, id)
		err = errors.Join(err, os.RemoveAll(path), os.RemoveAll(strings.TrimSuffix(path, ".jsonl")))
	}
	return errors.Join(err, r.sessions.forget(contextID))
}

// last returns the session of the last completed turn.
func (s savedSession) last() string {
	if s.Next == nil {
		return ""
	}
	return s.Next.SessionID
}

// maxForgotten is how many of a context's folders may be waiting to be removed.
const maxForgotten = 16

// forgottenPath returns the name of a forgotten folder until it is removed.
func (c Config) forgottenPath(contextID string, n int) string {
	return fmt.Sprintf("%s.forgotten%d", c.workspaceOf(contextID), n)
}

// setWorkspaceAside renames a context's folder if it moves with the context.
func (r *Runner) setWorkspaceAside(contextID string) error {
	if note, err := r.config.workspaceRecord(contextID); err == nil && note == nil {
		return nil
	}
	dir, n := r.config.workspaceOf(contextID), 0
	for _, name := range []string{dir, dir + ".restoring", dir + ".replaced"} {
		err := os.Rename(name, r.config.forgottenPath(contextID, n))
		for ; errors.Is(err, fs.ErrExist) && n < maxForgotten; n++ { // an earlier one is not removed yet
			err = os.Rename(name, r.config.forgottenPath(contextID, n))
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return os.Remove(r.config.workspaceRecordPath(contextID))
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
