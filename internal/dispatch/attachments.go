package dispatch

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"

	"github.com/google/uuid"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

// Attach stores a file that the task of sub is posted with. Its size and digest are not known before
// its end, so it passes through a temporary file. If the task is not submitted after all, the caller
// calls Discard.
func (s *Service) Attach(ctx context.Context, sub *Submission, name string, content io.Reader) error {
	named := bloom.Attachment{Name: name}
	wrong := named.CheckName()
	if slices.ContainsFunc(sub.attachments, func(a contract.NewArtifact) bool { return a.Path == named.Path() }) {
		wrong = "is the name of another file of the task"
	}
	left := s.maxAttachments
	for _, a := range sub.attachments {
		left -= a.Size
	}
	switch {
	case wrong != "":
		return bloom.Invalid("The name of an attached file is invalid", bloom.FieldError{Field: "file", Message: wrong})
	case len(sub.attachments) >= contract.MaxAttachments:
		return bloom.Invalid(fmt.Sprintf("A task may have at most %d files", contract.MaxAttachments), bloom.FieldError{Field: "file", Message: "is one too many"})
	}
	if sub.id == "" {
		id, err := uuid.NewV7()
		if err != nil {
			return bloom.Internal(err)
		}
		sub.id = id.String()
	}
	id, err := uuid.NewV7()
	if err != nil {
		return bloom.Internal(err)
	}
	file, err := os.CreateTemp(s.tempDir, "attachment-*")
	if err != nil {
		return bloom.Internal(err)
	}
	defer file.Close()
	if err := os.Remove(file.Name()); err != nil { // no crash leaves it behind
		return bloom.Internal(err)
	}
	sum := sha256.New()
	size, err := io.Copy(io.MultiWriter(file, sum), io.LimitReader(content, left+1))
	switch {
	case errors.As(err, new(*fs.PathError)):
		return bloom.Internal(err)
	case err != nil:
		return err
	case size > left:
		return ErrAttachmentsTooLarge(s.maxAttachments)
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return bloom.Internal(err)
	}
	n := contract.NewArtifact{ID: id.String(), TaskID: sub.id, Path: named.Path(), Type: contract.Attachment, Tags: []string{}, MediaType: mediaOf(name),
		Size: size, SHA256: hex.EncodeToString(sum.Sum(nil))}
	if n.URL, n.PendingUpload, err = s.Content.Put(ctx, fileKey(n.TaskID, n.ID, s.clock.Now()), file, n.Size, n.SHA256); err == nil {
		sub.attachments = append(sub.attachments, n)
	}
	return err
}

// ErrAttachmentsTooLarge refuses files that are larger together than the server's limit.
func ErrAttachmentsTooLarge(limit int64) error {
	if limit == 0 {
		return bloom.Conflict("This server accepts no files with a task (--attachment-limit-mib 0)")
	}
	return &bloom.Error{Kind: bloom.KindTooLarge, Code: bloom.CodeTooLarge, Message: fmt.Sprintf("The files of a task may have at most %d MiB together on this server", limit>>20)}
}

// MaxAttachments returns how large the files of a task may be together, in bytes; 0: none are accepted.
func (s *Service) MaxAttachments() int64 { return s.maxAttachments }

// Discard deletes the files of a submission that created no task. What it cannot delete is swept later.
func (s *Service) Discard(ctx context.Context, sub Submission) {
	for i := range sub.attachments {
		s.deleteUpload(ctx, contract.CompleteRequest{URL: &sub.attachments[i].URL}, nil) // no other call uses this key
	}
}

// attached is what a replay must have in common with the first body.
func (s Submission) attached() (list []bloom.Attachment) {
	for _, a := range s.attachments {
		list = append(list, bloom.Attachment{Name: a.Path, Size: a.Size, SHA256: a.SHA256})
	}
	return list
}
