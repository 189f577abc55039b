package bloom

// Limits of what lies in a row rather than in the blob store, in bytes.
const (
	// InlineContentLimit is the most text that is kept in an artifact's row.
	InlineContentLimit = 256 << 10
)

// DefaultArtifactType is the type of an artifact whose completion names none.
const DefaultArtifactType = "LLM_RESULT"

// Artifact is what a task left behind. Content is null when it lies in the blob
// store; URL then says where. A row always resolves to identical bytes: Size
// and SHA256 are of the content wherever it lies.
type Artifact struct {
	ID         string   `json:"id" format:"uuid"`
	TaskID     string   `json:"task_id" format:"uuid"`
	JobID      *string  `json:"job_id"`
	Type       string   `json:"type"`
	CreatedAt  int64    `json:"created_at" doc:"Unix milliseconds"`
	Finalized  bool     `json:"finalized"`
	URL        *string  `json:"url" doc:"Where the content lies when it is not in the row"`
	EntityRefs []string `json:"entity_refs" nullable:"false"`
	Tags       []string `json:"tags" nullable:"false"`
	Content    *string  `json:"content"`
	Size       int64    `json:"size" doc:"Bytes"`
	SHA256     string   `json:"sha256" doc:"Hex digest of the content"`
	MediaType  string   `json:"media_type"`

	// Only a list cuts: GET /artifacts/{id} has the whole content.
	ContentTruncated bool `json:"content_truncated,omitempty" doc:"The list shows only the beginning of the content"`
}

// FileName is what the content is saved under.
func (a *Artifact) FileName() string { return a.ID + ".txt" }

// CutTexts cuts content that is longer than n bytes and marks it; 0 cuts nothing.
func (a *Artifact) CutTexts(n int) {
	if n > 0 && a.Content != nil {
		short, cut := cutTo(*a.Content, n)
		a.Content, a.ContentTruncated = &short, cut
	}
}

// MoveReport counts what was done about artifacts that were to be moved.
type MoveReport struct {
	Examined int64 `json:"examined"`
	Moved    int64 `json:"moved"`
	Bytes    int64 `json:"bytes" doc:"Content of those that were moved"`
	Skipped  int64 `json:"skipped" doc:"Whose content another server has, or nobody"`
	Failed   int64 `json:"failed"`
}

// ContentDefect is something wrong with the content of an artifact.
type ContentDefect struct {
	Kind       string `json:"kind" enum:"missing,differs,orphaned,unchecked"`
	ArtifactID string `json:"artifact_id,omitempty"`
	TaskID     string `json:"task_id,omitempty"`
	URL        string `json:"url" doc:"Empty when the content lies in the artifact's row"`
	Detail     string `json:"detail"`
}

// VerifyReport counts what was found by reading all content again.
type VerifyReport struct {
	Examined  int64 `json:"examined"`
	Bytes     int64 `json:"bytes"`
	Missing   int64 `json:"missing"`
	Differs   int64 `json:"differs"`
	Orphaned  int64 `json:"orphaned"`
	Unchecked int64 `json:"unchecked" doc:"Whose content could not be read"`
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

// Defects is how many there are.
func (r VerifyReport) Defects() int64 { return r.Missing + r.Differs + r.Orphaned + r.Unchecked }

// ContentLine is one line of what moving or verifying artifacts answers with: how far
// it is, and in the last one how it ended.
type ContentLine struct {
	Moved    *MoveReport    `json:"moved,omitempty"`
	Verified *VerifyReport  `json:"verified,omitempty"`
	Defect   *ContentDefect `json:"defect,omitempty"`
	Done     bool           `json:"done" doc:"True in the last line"`
	Error    string         `json:"error,omitempty" doc:"Why it ended early; the server's log has the whole"`
}
