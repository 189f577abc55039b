package claude

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/workspace"
)

// Attachments opens the files that tasks were posted with. It fails with ErrUnavailable if the
// server is unavailable. The caller closes the file.
type Attachments interface {
	OpenAttachment(ctx context.Context, task bloom.Task, name string) (io.ReadCloser, error)
}

var errDamaged = errors.New("the content is not what was attached")

// placeAttachments puts the files that the task was posted with into its working folder. What an
// earlier attempt has put there is used again; other files are never overwritten.
func (t *taskRun) placeAttachments(ctx context.Context) (v verdict, ok bool) {
	if len(t.task.Attachments) == 0 {
		return v, true
	}
	root, err := os.OpenRoot(t.workdir)
	if err != nil {
		return t.notReady(ctx, "the worker cannot use its working folder", err), false
	}
	defer root.Close()
	for _, a := range t.task.Attachments {
		at, err := t.placeAttachment(ctx, root, a)
		if err == nil {
			t.attached = append(t.attached, at)
			continue
		}
		what := fmt.Sprintf("the attached file %q ", a.Name)
		if bloom.KindOf(err) == bloom.KindNotFound || errors.Is(err, errDamaged) {
			v := t.notReady(ctx, what+"is missing or damaged on the server", err)
			v.retryable = v.retryable && ctx.Err() != nil
			return v, false
		}
		return t.notReady(ctx, what+"cannot be fetched or written now", err), false
	}
	return v, true
}

// placeAttachment returns where in the working folder the file is.
func (t *taskRun) placeAttachment(ctx context.Context, root *os.Root, a bloom.Attachment) (string, error) {
	if problem := a.CheckName(); problem != "" || t.config.Attachments == nil {
		return "", fmt.Errorf("the worker places no such files: %s", problem)
	}
	if err := root.MkdirAll(path.Dir(a.Path()), 0o755); err != nil {
		return "", err
	}
	ext := path.Ext(a.Name)
	for n := 1; ; n++ {
		at := a.Path()
		if n > 1 {
			at = fmt.Sprintf("%s-%d%s", strings.TrimSuffix(at, ext), n, ext)
		}
		if _, err := root.Lstat(at); err == nil {
			if isAttachment(root, at, a) {
				return at, nil
			}
			continue
		}
		file, err := root.OpenFile(at, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return "", err
		}
		err = errors.Join(t.fetchAttachment(ctx, file, a), file.Close())
		if err != nil {
			err = errors.Join(err, root.Remove(at))
		}
		return at, err
	}
}

// isAttachment reports whether a file of the folder has the attachment's content.
func isAttachment(root *os.Root, at string, a bloom.Attachment) bool {
	file, info, err := workspace.OpenRegular(root, at)
	if err != nil {
		return false
	}
	defer file.Close()
	if info.Size() != a.Size {
		return false
	}
	sum := sha256.New()
	_, err = io.Copy(sum, file)
	return err == nil && hexSum(sum) == a.SHA256
}

func (t *taskRun) fetchAttachment(ctx context.Context, to *os.File, a bloom.Attachment) error {
	ctx, cancel := context.WithTimeout(ctx, workspaceTimeout)
	defer cancel()
	return retryDownload(ctx, func(from *download) (err error) {
		if from.ReadCloser, err = t.config.Attachments.OpenAttachment(ctx, t.task, a.Name); err != nil {
			return err
		}
		defer from.Close()
		if _, err := to.Seek(0, io.SeekStart); err != nil {
			return err
		}
		if err := to.Truncate(0); err != nil {
			return err
		}
		sum := sha256.New()
		n, err := io.Copy(io.MultiWriter(to, sum), io.LimitReader(from, a.Size+1))
		if err == nil && (n != a.Size || hexSum(sum) != a.SHA256) {
			err = errDamaged
		}
		return err
	}, func() (bool, error) { return false, nil })
}

// withAttachments returns the prompt followed by where the attached files are.
func withAttachments(prompt string, attached []string) string {
	if len(attached) == 0 {
		return prompt
	}
	return prompt + "\n\nFiles attached to this task, in the working folder:\n- " + strings.Join(attached, "\n- ")
}
