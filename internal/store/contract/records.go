package contract

import (
	"context"

	"github.com/bloom-runtime/bloom"
)

// InlineContentLimit is the largest content, in bytes, that is stored in an artifact's row. Larger
// content goes to the blob store.
const InlineContentLimit = 256 << 10

// MaxFiles is the most files that an attempt may add as artifacts.
const MaxFiles = 1000

// Attachment is the type of artifacts that a task was created with, and MaxAttachments how many these
// may be.
const (
	Attachment     = "ATTACHMENT"
	MaxAttachments = 20
)

// NewArtifact is an artifact to add that is not an attempt's output. Its content has already been
// stored.
type NewArtifact struct {
	ID, TaskID    string
	LeaseID       string // under which it is made; for AddArtifact
	Epoch         int64  // of that lease; for AddRunLogs
	Path, Type    string
	Tags          []string
	MediaType     string
	URL           string
	Size          int64 // bytes
	SHA256        string
	PendingUpload bool // see CompleteRequest.PendingUpload
	Actor         string
}

// Artifact returns the artifact that is stored for n at the time now, in Unix milliseconds.
func (n NewArtifact) Artifact(epoch, now int64) bloom.Artifact {
	return bloom.Artifact{
		ID: n.ID, TaskID: n.TaskID, Type: n.Type, CreatedAt: now, Finalized: true, URL: &n.URL, EntityRefs: []string{}, Tags: n.Tags,
		Size: n.Size, SHA256: n.SHA256, MediaType: n.MediaType, Path: n.Path, Epoch: epoch,
	}
}

// AddRunLogs asks to add run logs of a task's events: those numbered above After, up to To.
type AddRunLogs struct {
	TaskID    string
	After, To int64
	Artifacts []NewArtifact
}

// MaxWaiting bounds the count of artifacts that wait to be moved.
const MaxWaiting = 10_000

// RecordStore keeps artifacts, the audit and settings.
type RecordStore interface {
	Artifact(ctx context.Context, id string) (bloom.Artifact, error)
	Artifacts(ctx context.Context, q bloom.ArtifactQuery) (artifacts []bloom.Artifact, next bloom.Cursor, err error)
	// MoveArtifact records that an artifact's content has moved from one URL to another; from is
	// nil for content in the row, which is then removed. It does nothing when the content is
	// already at to. Conflict when it is at neither.
	MoveArtifact(ctx context.Context, id string, from *string, to string) error
	// WaitingContent counts the artifacts that ArtifactQuery.PendingUpload lists and the
	// contexts that Transcripts lists as local, together up to MaxWaiting.
	WaitingContent(ctx context.Context) (int64, error)
	// AddArtifact adds a file under an active lease, ErrLeaseLost otherwise. The same path again
	// with the same content returns the existing artifact and replayed true; with other content it
	// is a conflict.
	AddArtifact(ctx context.Context, n NewArtifact) (a bloom.Artifact, replayed bool, err error)
	// DueRunLogs lists ended tasks whose events have no run log yet, if the store was opened
	// to record them: at most limit, oldest first, after the previous page's next; 0 for the first
	// page.
	DueRunLogs(ctx context.Context, after int64, limit int) (taskIDs []string, next int64, err error)
	// UnarchivedStreams lists the tasks that RemoveEvents would find whose events are not
	// completely in run logs.
	UnarchivedStreams(ctx context.Context, r RemoveRequest) (taskIDs []string, next int64, more bool, err error)
	// ArchivedTo returns the number of a task's last event that is in a run log, 0 when none
	// is.
	ArchivedTo(ctx context.Context, taskID string) (int64, error)
	// AddRunLogs adds run logs of an ended task's events after ArchivedTo. Conflict when
	// the task has not ended or another process was faster.
	AddRunLogs(ctx context.Context, r AddRunLogs) error
	Audit(ctx context.Context, q bloom.AuditQuery) (entries []bloom.Audit, next bloom.Cursor, err error)
	// AppendAudit writes an audit entry without any other change. The store sets ID, Seq and
	// Timestamp.
	AppendAudit(ctx context.Context, a bloom.Audit) error
	Settings(ctx context.Context) (map[string]string, error)
	// PutSettings writes settings together with the audit entry of the change. An empty value
	// removes the setting.
	PutSettings(ctx context.Context, settings map[string]string, a bloom.Audit) error
	// ReplaceSettings is PutSettings, but fails with a conflict unless the settings named in was
	// still have these values.
	ReplaceSettings(ctx context.Context, was, settings map[string]string, a bloom.Audit) error
}
