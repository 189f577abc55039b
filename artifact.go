package bloom

import (
	"fmt"
	"io/fs"
	"path"
	"strings"
	"unicode/utf8"
)

// Types of artifacts.
const (
	// DefaultArtifactType is the type of an artifact whose completion names none.
	DefaultArtifactType = "LLM_RESULT"
	// ArtifactFile is the type of a file whose upload names none.
	ArtifactFile = "FILE"
	// ArtifactRunLog is the type of the run log of an attempt: the lines of GET
	// …/events, compressed with gzip. Only the server creates it.
	ArtifactRunLog = "transcript"
)

// Run logs are stored in a reserved folder of an attempt's artifacts.
const (
	runLogDir = "transcript/"
	runLogExt = ".jsonl.gz"
)

// RunLogPath returns the path of the run log of the events from first to last.
func RunLogPath(first, last int64) string {
	return fmt.Sprintf("%s%d-%d%s", runLogDir, first, last, runLogExt)
}

// IsRunLogPath reports whether a path is in the run logs' folder, which only the server
// writes to.
func IsRunLogPath(path string) bool { return strings.HasPrefix(path, runLogDir) }

// RunLogRange returns the range of events that the artifact is the run log of. ok is false when
// it is not a run log.
func (a *Artifact) RunLogRange() (first, last int64, ok bool) {
	if a.Type != ArtifactRunLog {
		return 0, 0, false
	}
	n, err := fmt.Sscanf(a.Path, runLogDir+"%d-%d", &first, &last)
	return first, last, err == nil && n == 2
}

// CheckArtifactPath returns what is wrong with a file's path or a glob for files, or "". Both must
// be relative to the worker's folder, use slashes, and stay in the folder.
func CheckArtifactPath(p string) string {
	switch {
	case p == "" || len(p) > 1024:
		return "must have 1 to 1024 bytes"
	case !utf8.ValidString(p) || strings.ContainsFunc(p, func(r rune) bool { return r < 0x20 || r == 0x7f || r == '\\' || r == utf8.RuneError }):
		return "must be plain text without control characters and backslashes"
	case !fs.ValidPath(p) || p == ".":
		return "must be a relative path that stays in the worker's folder"
	}
	return ""
}

// Artifact is an output of a task. Content is null when it is in the blob store at URL. Size and
// SHA256 describe the content wherever it is stored; it never changes.
type Artifact struct {
	ID         string   `json:"id" format:"uuid"`
	TaskID     string   `json:"task_id" format:"uuid"`
	JobID      *string  `json:"job_id"`
	Type       string   `json:"type"`
	CreatedAt  int64    `json:"created_at" doc:"Unix milliseconds"`
	Finalized  bool     `json:"finalized"`
	URL        *string  `json:"url" doc:"Where the content is when it is not in the row"`
	EntityRefs []string `json:"entity_refs" nullable:"false"`
	Tags       []string `json:"tags" nullable:"false"`
	Content    *string  `json:"content"`
	Size       int64    `json:"size" doc:"Bytes"`
	SHA256     string   `json:"sha256" doc:"Hex digest of the content"`
	MediaType  string   `json:"media_type"`
	Path       string   `json:"path,omitempty" doc:"Of a file: its place in the worker's folder"`
	Epoch      int64    `json:"epoch,omitempty" doc:"The lease under which it was made"`

	// Of its task; only in lists.
	ContextID string `json:"context_id,omitempty"`
	Prompt    string `json:"prompt,omitempty" doc:"The first 200 characters of its task's prompt"`

	// Only lists truncate: GET /artifacts/{id} has the whole content.
	ContentTruncated bool `json:"content_truncated,omitempty" doc:"The list shows only the beginning of the content"`
}

// FileName returns the name under which to save the content.
func (a *Artifact) FileName() string {
	if a.Path != "" {
		return path.Base(a.Path)
	}
	return a.ID + ".txt"
}

// EventData returns the artifact's description in a task's stream and in the audit.
func (a *Artifact) EventData() map[string]any {
	return map[string]any{"artifact_id": a.ID, "path": a.Path, "type": a.Type, "size": a.Size}
}

// MoveReport counts the artifacts that were moved to object storage.
type MoveReport struct {
	Examined int64 `json:"examined"`
	Moved    int64 `json:"moved"`
	Bytes    int64 `json:"bytes" doc:"Content that was moved"`
	Skipped  int64 `json:"skipped" doc:"Artifacts whose content is missing or on another server"`
	Failed   int64 `json:"failed"`
	Contexts int64 `json:"contexts" doc:"Contexts whose transcripts and working folders were examined; their parts count among those moved, skipped or failed"`
}

// ContentDefect is a problem with the content of an artifact or a context.
type ContentDefect struct {
	Kind       string `json:"kind" enum:"missing,differs,orphaned,unchecked"`
	ArtifactID string `json:"artifact_id,omitempty"`
	TaskID     string `json:"task_id,omitempty"`
	URL        string `json:"url" doc:"Empty when the content is in the artifact's row"`
	Detail     string `json:"detail"`
	ContextID  string `json:"context_id,omitempty" doc:"The context whose transcript or working folder it is"`
}

// VerifyReport counts what a check of all stored content found.
type VerifyReport struct {
	Examined  int64 `json:"examined"`
	Bytes     int64 `json:"bytes"`
	Missing   int64 `json:"missing"`
	Differs   int64 `json:"differs"`
	Orphaned  int64 `json:"orphaned"`
	Unchecked int64 `json:"unchecked" doc:"Content that could not be read"`
	Contexts  int64 `json:"contexts" doc:"Contexts whose transcripts and working folders were examined"`
}

// Count adds a defect.
func (r *VerifyReport) Count(d ContentDefect) {
	switch d.Kind {
	case "missing":
		r.Missing++
	case "differs":
		r.Differs++
	case "orphaned":
		r.Orphaned++
	default:
		r.Unchecked++
	}
}

// Defects returns the number of defects found.
func (r VerifyReport) Defects() int64 { return r.Missing + r.Differs + r.Orphaned + r.Unchecked }

// ContentLine is one line of the streamed answer to moving or verifying artifacts: the progress so
// far and, in the last line, the outcome.
type ContentLine struct {
	Moved    *MoveReport    `json:"moved,omitempty"`
	Verified *VerifyReport  `json:"verified,omitempty"`
	Defect   *ContentDefect `json:"defect,omitempty"`
	Done     bool           `json:"done" doc:"True in the last line"`
	Error    string         `json:"error,omitempty" doc:"Why it ended early; the server's log has the details"`
}
