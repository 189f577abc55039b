package dispatch

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"mime"
	"path"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/storable"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

// FileUpload describes a file that a worker uploads for an attempt.
type FileUpload struct {
	TaskID, LeaseID string
	Path            string
	Type            string // bloom.ArtifactFile when empty
	Tags            []string
	Size            int64 // bytes
	SHA256          string
	Actor           string
}

// ErrNoFiles means that this server accepts no files.
var ErrNoFiles = &bloom.Error{Kind: bloom.KindConflict, Code: "artifacts_disabled", Message: "This server accepts no files from workers (--artifact-limit-mib 0)"}

// CheckFile refuses a file before its content is read: if it is too large, its
// description is invalid, or its lease is not active.
func (s *Service) CheckFile(ctx context.Context, f FileUpload) error {
	var invalid []bloom.FieldError
	if problem := bloom.CheckArtifactPath(f.Path); problem != "" {
		invalid = append(invalid, bloom.FieldError{Field: "path", Message: problem})
	} else if bloom.IsRunLogPath(f.Path) {
		invalid = append(invalid, bloom.FieldError{Field: "path", Message: "must not be in transcript/, which is for the transcripts that the server makes"})
	}
	if raw, err := hex.DecodeString(f.SHA256); err != nil || len(raw) != 32 {
		invalid = append(invalid, bloom.FieldError{Field: "sha256", Message: "must be the SHA-256 of the body in hex"})
	}
	if len(f.Type) > 128 || f.Type == bloom.ArtifactRunLog {
		invalid = append(invalid, bloom.FieldError{Field: "type", Message: "must have at most 128 bytes and not be transcript"})
	}
	if len(f.Tags) > 64 || len(strings.Join(f.Tags, "")) > 4096 {
		invalid = append(invalid, bloom.FieldError{Field: "tag", Message: "must be at most 64, with 4096 bytes together"})
	}
	switch {
	case s.maxFile == 0:
		return ErrNoFiles
	case len(invalid) > 0:
		return bloom.Invalid("The description of the file is invalid", invalid...)
	case f.Size > s.maxFile:
		return &bloom.Error{Kind: bloom.KindTooLarge, Code: bloom.CodeTooLarge, Message: fmt.Sprintf("The file is larger than the %d bytes that this server accepts", s.maxFile)}
	case f.LeaseID == "":
		return bloom.ErrLeaseLost
	}
	return s.CheckActive(ctx, f.TaskID, f.LeaseID)
}

// PutFile stores a file of an attempt: it uploads and verifies the content, then
// records it under the lease. It streams the content. The same path with the same
// content again returns the first artifact.
func (s *Service) PutFile(ctx context.Context, f FileUpload, content io.Reader) (bloom.Artifact, error) {
	f.Path, f.Type = storable.Text(f.Path), storable.Text(cmp.Or(f.Type, bloom.ArtifactFile))
	if err := s.CheckFile(ctx, f); err != nil {
		return bloom.Artifact{}, err
	}
	if err := s.TakeUpload(ctx, f.TaskID, f.LeaseID, f.Size); err != nil {
		return bloom.Artifact{}, err
	}
	id, err := uuid.NewV7()
	if err != nil {
		return bloom.Artifact{}, bloom.Internal(err)
	}
	n := contract.NewArtifact{ID: id.String(), TaskID: f.TaskID, LeaseID: f.LeaseID, Path: f.Path, Type: f.Type, MediaType: mediaOf(f.Path), Actor: f.Actor, Tags: []string{},
		Size: f.Size, SHA256: strings.ToLower(f.SHA256)}
	if n.URL, n.PendingUpload, err = s.Content.Put(ctx, fileKey(n.TaskID, n.ID, s.clock.Now()), content, n.Size, n.SHA256); err != nil {
		return bloom.Artifact{}, err
	}
	for _, tag := range f.Tags {
		n.Tags = append(n.Tags, storable.Text(tag))
	}
	a, replayed, err := s.store.AddArtifact(ctx, n)
	var refused *bloom.Error
	if replayed || errors.As(err, &refused) && refused.Kind != bloom.KindInternal && refused.Kind != bloom.KindUnavailable {
		s.deleteUpload(ctx, contract.CompleteRequest{URL: &n.URL}, nil) // no other call uses this key
	}
	if err != nil {
		s.refusedStale(ctx, f.TaskID, f.LeaseID, f.Actor, err)
	}
	return a, err
}

// fileKey returns a unique key. See contentKey for the day in it.
func fileKey(taskID, id string, now time.Time) string {
	return "artifacts/" + taskID + "/" + id + "-" + now.UTC().Format("20060102")
}

// mediaOf returns the media type of a file's extension. It does not use the system's
// table, which differs between machines.
func mediaOf(name string) string {
	switch ext := strings.ToLower(path.Ext(name)); ext {
	case ".txt", ".log", ".md", ".csv":
		return textMedia
	case ".jsonl", ".ndjson":
		return "application/x-ndjson"
	case ".gz":
		return "application/gzip"
	case ".zip":
		return "application/zip"
	case ".css", ".gif", ".htm", ".html", ".jpeg", ".jpg", ".js", ".json", ".pdf", ".png", ".svg", ".webp", ".xml":
		return mime.TypeByExtension(ext)
	}
	return "application/octet-stream"
}
