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
	"github.com/bloom-runtime/bloom/internal/workspace"
)

// Uploads takes the files that tasks ask for.
type Uploads interface {
	// Upload stores a file under the task's lease. tag is the glob that named it. After
	// a failure again says that it may be taken when it is tried again.
	Upload(ctx context.Context, task bloom.Task, path, tag string, content io.ReaderAt, size int64) (again bool, err error)
}

const (
	// uploadPatience is how long the uploads of a run are repeated that fail.
	uploadPatience = 2 * time.Minute
	// maxSkips is how many files that were not uploaded are named one by one.
	maxSkips = 16
)

// tooLarge is a file that the operator does not let pass.
type tooLarge struct{ size, most int64 }

func (e *tooLarge) Error() string {
	return fmt.Sprintf("its %d bytes are more than the %d that this worker uploads", e.size, e.most)
}

// uploadReason is a sentence without the machine's paths.
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

// plainReason is a reason as it is to be shown.
type plainReason string

func (r plainReason) Error() string { return string(r) }

// uploadFiles uploads what the task's globs match in the working folder now. What is not
// uploaded is said in the stream and beside the outcome; it costs the task nothing else.
func (t *taskRun) uploadFiles(ctx context.Context, v verdict) {
	globs := t.task.Policy.Artifacts
	switch {
	case len(globs) == 0 || v.release || ctx.Err() != nil:
		return
	case t.config.Uploads == nil || t.config.MaxFiles <= 0 || t.config.MaxFileBytes <= 0:
		t.emit.warn("artifacts_disabled", "the task asks for files as artifacts, and this worker uploads none (--upload-max-files, --upload-max-mib)")
		return
	}
	u := &uploads{taskRun: t, until: t.config.Clock.Now().Add(uploadPatience)}
	root, err := os.OpenRoot(t.workdir)
	if err != nil {
		t.config.Log.Error("working folder", "error", err)
		u.skip("*", plainReason("the working folder cannot be read"))
		return
	}
	defer root.Close()
	for _, f := range u.find(ctx, root, globs) {
		if err := u.one(ctx, root, f); err != nil {
			u.skip(f.path, err)
		}
		if ctx.Err() != nil {
			u.skip("*", plainReason("the run was stopped before"))
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
	until   time.Time // transient failures are repeated until then
	skipped int
}

func (u *uploads) skip(path string, err error) {
	if u.skipped++; u.skipped <= maxSkips {
		u.emit.warn("artifact_skipped", clip(path, 512)+" was not uploaded: "+uploadReason(err))
	}
}

// matched is a file that a glob names.
type matched struct{ path, glob string }

// find looks for the files, at most as many as the operator allows, in the order of
// their names.
func (u *uploads) find(ctx context.Context, root *os.Root, globs []string) (files []matched) {
	search := &hintSearch{walker: walker{ctx: ctx, root: root, left: maxGlobEntries}, work: maxGlobWork}
	seen := map[string]bool{}
	for _, glob := range globs {
		names, err := search.expand(glob)
		switch {
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			u.skip(glob, err)
		case len(names) == 0 && ctx.Err() == nil:
			u.emit.warn("artifact_none", clip(glob, 512)+" matches no file, so nothing of it was uploaded")
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

// one uploads a file, again when it was changed meanwhile or the server is away.
func (u *uploads) one(ctx context.Context, root *os.Root, f matched) error {
	wait := retry.Policy{First: 100 * time.Millisecond, Max: 5 * time.Second, Jitter: 0.5}.Waits()
	for first := true; ; first = false {
		again, err := u.try(ctx, root, f)
		if first && bloom.KindOf(err) == bloom.KindInvalid {
			again = true // it was changed while it was read
		}
		if err == nil || !again || u.config.Clock.Now().After(u.until) || retry.Sleep(ctx, wait()) != nil {
			return err
		}
	}
}

// try opens and uploads a file. Nothing but a regular file inside the folder is opened,
// and opening never waits.
func (u *uploads) try(ctx context.Context, root *os.Root, f matched) (again bool, err error) {
	if bloom.IsTranscriptPath(f.path) {
		return false, plainReason("the folder transcript/ is for the transcripts that the server makes")
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
