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

// Forget begins to drop what is kept of a context on this machine: its session, also
// claude's own file, its living process, and its working folder if that moves with it.
// The context's next task waits until finish, which must be called, has put them aside.
// A task of the context that is running ends first. finish then removes the folder,
// which no task waits for. It fails when ctx ends before; forgetting the context again
// removes the rest.
func (r *Runner) Forget(contextID string) (finish func(ctx context.Context) error) {
	release, idle := r.sessions.reserve(contextID)
	return func(ctx context.Context) error {
		if !idle {
			var err error
			if release, err = r.sessions.await(ctx, contextID); err != nil {
				return err
			}
		}
		err := r.drop(contextID)
		release()
		return errors.Join(err, r.removeForgotten(ctx, contextID))
	}
}

// drop puts aside what is kept of a context. It is quick.
func (r *Runner) drop(contextID string) error {
	r.pool.evict(contextID)
	if err := r.dropWorkspace(contextID); err != nil {
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

// last is the session of the last completed turn.
func (s savedSession) last() string {
	if s.Next == nil {
		return ""
	}
	return s.Next.SessionID
}

// maxAside is how many of a context's folders may wait to be removed.
const maxAside = 16

// aside is where a forgotten folder waits to be removed.
func (c Config) aside(contextID string, n int) string {
	return fmt.Sprintf("%s.forgotten%d", c.workspaceOf(contextID), n)
}

// dropWorkspace puts a context's folder aside if it moves with the context.
func (r *Runner) dropWorkspace(contextID string) error {
	if note, err := r.config.workspaceNote(contextID); err == nil && note == nil {
		return nil
	}
	dir, n := r.config.workspaceOf(contextID), 0
	for _, name := range []string{dir, dir + ".restoring", dir + ".replaced"} {
		err := os.Rename(name, r.config.aside(contextID, n))
		for ; errors.Is(err, fs.ErrExist) && n < maxAside; n++ { // one is there that is not empty
			err = os.Rename(name, r.config.aside(contextID, n))
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return os.Remove(r.config.workspaceNotePath(contextID))
}

// removeForgotten removes what dropWorkspace put aside, also what was left of an earlier
// time. One context after the other, so that tasks have most of the disk.
func (r *Runner) removeForgotten(ctx context.Context, contextID string) (err error) {
	select {
	case r.removing <- struct{}{}:
		defer func() { <-r.removing }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	for n := range maxAside {
		err = errors.Join(err, workspace.Remove(ctx, r.config.aside(contextID, n)))
	}
	return err
}
