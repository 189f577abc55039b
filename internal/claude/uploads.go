package claude

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/retry"
	"github.com/bloom-runtime/bloom/internal/storable"
	"github.com/bloom-runtime/bloom/internal/workspace"
)

// Uploads takes the files that tasks ask for.
type Uploads interface {
	// Upload stores a file under the task's lease. tag is the glob that matched it. If it
	// fails, again reports whether a retry may succeed.
	Upload(ctx context.Context, task bloom.Task, path, tag string, content io.ReaderAt, size int64) (again bool, err error)
}

const (
	// uploadRetryTime is how long a run retries its failed uploads.
	uploadRetryTime = 2 * time.Minute
	// maxSkips is how many of the files that were not uploaded have a warning of their own.
	maxSkips = 16
)

// tooLarge is the error of a file that exceeds the operator's limit.
type tooLarge struct{ size, most int64 }

func (e *tooLarge) Error() string {
	return fmt.Sprintf("its %d bytes are more than the %d that this worker uploads", e.size, e.most)
}

// uploadReason returns the text of an error, without paths of this machine.
func uploadReason(err error) string {
	var refused *bloom.Error
	switch {
	case errors.As(err, &refused):
		return strings.ToLower(refused.Message[:1]) + refused.Message[1:]
	case errors.As(err, new(*tooLarge)), errors.As(err, new(plainReason)):
		return err.Error()
	}
	return hintReason(err)
}

// plainReason is an error whose text may be shown.
type plainReason string

func (r plainReason) Error() string { return string(r) }

// uploadFiles uploads the files in the working folder that the task's globs match. A file
// that is not uploaded causes a warning, but does not fail the task.
func (t *taskRun) uploadFiles(ctx context.Context, v verdict) {
	globs := t.task.Policy.Artifacts
	switch {
	case len(globs) == 0 || v.release:
		return
	case t.config.Uploads == nil || t.config.MaxFiles <= 0 || t.config.MaxFileBytes <= 0:
		t.emit.warn("artifacts_disabled", "the task asks for files as artifacts, but uploads are disabled on this worker (--upload-max-files, --upload-max-mib)")
		return
	}
	u := &uploads{taskRun: t, until: t.config.Clock.Now().Add(uploadRetryTime)}
	if ctx.Err() != nil {
		u.skip("*", plainReason("the run was stopped"))
		return
	}
	root, err := os.OpenRoot(t.workdir)
	if err != nil {
		t.config.Log.Error("the working folder cannot be read", "error", err)
		u.skip("*", plainReason("the working folder cannot be read"))
		return
	}
	defer root.Close()
	for _, f := range u.find(ctx, root, globs) {
		if err := u.one(ctx, root, f); err != nil {
			u.skip(f.path, err)
		}
		if ctx.Err() != nil {
			u.skip("*", plainReason("the run was stopped"))
			return
		}
	}
	if u.skipped > maxSkips {
		t.emit.warn("artifact_skipped", fmt.Sprintf("%d more files were not uploaded", u.skipped-maxSkips))
	}
}

// uploads are the uploads of one run.
type uploads struct {
	*taskRun
	until   time.Time // temporary failures are retried until then
	skipped int
}

func (u *uploads) skip(path string, err error) {
	if u.skipped++; u.skipped <= maxSkips {
		u.emit.warn("artifact_skipped", storable.Cut(path, 512)+" was not uploaded: "+uploadReason(err))
	}
}

// matched is a file that a glob matches.
type matched struct{ path, glob string }

// find returns the matching files sorted by name, at most as many as the operator allows.
func (u *uploads) find(ctx context.Context, root *os.Root, globs []string) (files []matched) {
	search := &hintSearch{walker: walker{ctx: ctx, root: root, left: maxGlobEntries}, work: maxGlobWork}
	seen := map[string]bool{}
	for _, glob := range globs {
		names, err := search.expand(glob)
		switch {
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			u.skip(glob, err)
		case len(names) == 0 && ctx.Err() == nil:
			u.emit.warn("artifact_none", storable.Cut(glob, 512)+" matches no file")
		}
		for _, name := range names {
			if !seen[name] {
				seen[name] = true
				files = append(files, matched{name, glob})
			}
		}
	}
	slices.SortFunc(files, func(a, b matched) int { return strings.Compare(a.path, b.path) })
	if most := u.config.MaxFiles; len(files) > most {
		u.skip("*", plainReason(fmt.Sprintf("%d files match, and this worker uploads at most %d", len(files), most)))
		files = files[:most]
	}
	return files
}

// one uploads a file. It retries if the file changed meanwhile or the server is unavailable.
func (u *uploads) one(ctx context.Context, root *os.Root, f matched) error {
	wait := retry.Policy{First: 100 * time.Millisecond, Max: 5 * time.Second, Jitter: 0.5}.Waits()
	for first := true; ; first = false {
		again, err := u.try(ctx, root, f)
		if first && bloom.KindOf(err) == bloom.KindInvalid {
			again = true // the file changed while it was read
		}
		if err == nil || !again || u.config.Clock.Now().After(u.until) || retry.Sleep(ctx, wait()) != nil {
			return err
		}
	}
}

// try uploads a file once. It opens only regular files inside the folder, and never blocks.
func (u *uploads) try(ctx context.Context, root *os.Root, f matched) (again bool, err error) {
	if bloom.IsRunLogPath(f.path) {
		return false, plainReason("the folder transcript/ is reserved for the server's transcripts")
	}
	file, info, err := workspace.OpenRegular(root, f.path)
	if err != nil {
		return false, err
	}
	defer file.Close()
	if info.Size() > u.config.MaxFileBytes {
		return false, &tooLarge{info.Size(), u.config.MaxFileBytes}
	}
	return u.config.Uploads.Upload(ctx, u.task, f.path, f.glob, file, info.Size())
}
