package bloom

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
)

// Context is a conversation: the tasks that share a context id, as a whole.
type Context struct {
	ID         string  `json:"id"`
	Tasks      int64   `json:"tasks" doc:"How many tasks were posted in it"`
	Unfinished int64   `json:"unfinished" doc:"How many of them have not ended"`
	Tokens     int64   `json:"tokens" doc:"What its attempts used so far"`
	CostUSD    float64 `json:"cost_usd" doc:"What its attempts cost so far, as far as they said; an estimate"`
	WorkerID   *string `json:"worker_id" doc:"The worker that was given a task of it last; it is the first choice for the next one"`
	SessionID  *string `json:"session_id" doc:"claude's session, null until the server has its transcript"`
	Size       int64   `json:"size" doc:"Bytes of the session's transcript that the server has"`
	Workspace  int64   `json:"workspace_size" doc:"Bytes of the snapshot of its working folder that the server has; 0 when it has none"`
	CreatedAt  int64   `json:"created_at" doc:"When its first task was posted, Unix milliseconds"`
	LastUsedAt int64   `json:"last_used_at" doc:"When its newest task was posted, Unix milliseconds"`
	UpdatedAt  int64   `json:"updated_at" doc:"When a task of it last came, ended or came back, Unix milliseconds"`
}

// ErrContextNotFound says that no task was posted in a context, or that it was
// forgotten.
var ErrContextNotFound = NotFound("Context")

// Bounds of a transcript.
const (
	// MaxTranscript is the largest transcript that is kept, in bytes.
	MaxTranscript = 256 << 20
	// MaxTranscriptPart is the largest part in which one is uploaded, in bytes as they
	// travel.
	MaxTranscriptPart = 16 << 20
	// MaxTranscriptParts is how many parts one may have.
	MaxTranscriptParts = 96
)

// Transcript is the conversation of a context in claude's own format: opaque bytes, in
// compressed parts that follow each other in the blob store.
type Transcript struct {
	SessionID string           `json:"session_id"`
	Size      int64            `json:"size"`   // of all of it, uncompressed
	SHA256    string           `json:"sha256"` // of all of it, uncompressed
	Parts     []TranscriptPart `json:"parts"`
	// Workspace is the context's working folder, nil when none was kept. SessionID is
	// empty when there is only that.
	Workspace *Snapshot `json:"workspace,omitempty"`
}

// Bounds of a snapshot of a working folder.
const (
	// MaxWorkspace is the largest snapshot that is kept: a tar archive of so many bytes.
	MaxWorkspace = 512 << 20
	// MaxWorkspaceFiles is how many files, folders and links one may have.
	MaxWorkspaceFiles = 100_000
)

// Snapshot is a working folder as a tar archive: opaque bytes, in compressed parts that
// follow each other in the blob store.
type Snapshot struct {
	Size   int64            `json:"size"`   // uncompressed
	SHA256 string           `json:"sha256"` // uncompressed
	Parts  []TranscriptPart `json:"parts"`
}

// Text is the snapshot as a store keeps it; empty for nil.
func (s *Snapshot) Text() string {
	if s == nil {
		return ""
	}
	return string(MustJSON(s))
}

// Bytes is the snapshot's size, 0 for nil.
func (s *Snapshot) Bytes() int64 {
	if s == nil {
		return 0
	}
	return s.Size
}

// ParseSnapshot reads what Text gave; nil when that is no snapshot.
func ParseSnapshot(text string) *Snapshot {
	s := &Snapshot{}
	if text == "" || json.Unmarshal([]byte(text), s) != nil {
		return nil
	}
	return s
}

// WorkspaceUpdate is what a completion says of its context's working folder after the
// turn. The parts were uploaded under the same lease before.
type WorkspaceUpdate struct {
	Size   int64            `json:"size" required:"false" minimum:"0" maximum:"536870912" doc:"Bytes of the tar archive, uncompressed"`
	SHA256 string           `json:"sha256" minLength:"1" maxLength:"64" doc:"Of the tar archive, uncompressed"`
	After  string           `json:"after" required:"false" maxLength:"64" doc:"The sha256 of the snapshot that the task began with; empty when there was none"`
	Parts  []TranscriptPart `json:"parts" nullable:"false" minItems:"1" maxItems:"96" doc:"As the uploads were answered"`
}

// WorkspaceState is what a worker gets to know of the working folder of its task's context.
type WorkspaceState struct {
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256" doc:"Empty when there is no snapshot"`
}

// WithWorkspace is the transcript with a new snapshot of the working folder; ok is false
// when the snapshot does not go on from the one that is kept. was may be nil.
func (u WorkspaceUpdate) WithWorkspace(was *Transcript) (t Transcript, ok bool) {
	t.Parts = []TranscriptPart{}
	if was != nil {
		t = *was
	}
	kept := ""
	if t.Workspace != nil {
		kept = t.Workspace.SHA256
	}
	t.Workspace = &Snapshot{Size: u.Size, SHA256: u.SHA256, Parts: u.Parts}
	return t, kept == u.After
}

// TranscriptPart is one part as it was uploaded, compressed.
type TranscriptPart struct {
	URL  string `json:"url"`
	Size int64  `json:"size"`
}

// TranscriptUpdate is what a completion says of its context's transcript after the turn.
// The parts were uploaded under the same lease before.
type TranscriptUpdate struct {
	SessionID string           `json:"session_id" minLength:"1" maxLength:"128"`
	Size      int64            `json:"size" required:"false" minimum:"0" doc:"Bytes of the whole transcript, uncompressed"`
	SHA256    string           `json:"sha256" minLength:"1" maxLength:"64" doc:"Of the whole transcript, uncompressed"`
	After     string           `json:"after" required:"false" doc:"The sha256 of the transcript that the parts are added to; empty when they are all of it"`
	Parts     []TranscriptPart `json:"parts" required:"false" nullable:"false" maxItems:"96" doc:"As the uploads were answered"`
}

// TranscriptState is what a worker gets to know of its task's context.
type TranscriptState struct {
	SessionID string `json:"session_id" doc:"Empty when there is no transcript"`
	Size      int64  `json:"size"`
	SHA256    string `json:"sha256"`
	Parts     int    `json:"parts" doc:"How many parts it has"`
	Earlier   int64  `json:"earlier" doc:"How many other tasks the context has"`
}

// Exchange is an earlier task of a context in short.
type Exchange struct {
	Prompt string `json:"prompt"`
	Output string `json:"output"`
}

// Joined is the transcript after an update; ok is false when the update does not go on
// from was, which is nil when there is none.
func (u TranscriptUpdate) Joined(was *Transcript) (t Transcript, ok bool) {
	t = Transcript{SessionID: u.SessionID, Size: u.Size, SHA256: u.SHA256, Parts: u.Parts}
	if was != nil {
		t.Workspace = was.Workspace
	}
	if u.After == "" {
		return t, true
	}
	if was == nil || was.SHA256 != u.After || was.SessionID != u.SessionID || len(was.Parts)+len(u.Parts) > MaxTranscriptParts {
		return t, false
	}
	t.Parts = append(slices.Clone(was.Parts), u.Parts...)
	return t, true
}

// Dropped are the parts of was that t does not have.
func (t Transcript) Dropped(was *Transcript) (urls []string) {
	if was == nil {
		return nil
	}
	for _, url := range was.URLs() {
		if !slices.Contains(t.URLs(), url) {
			urls = append(urls, url)
		}
	}
	return urls
}

// URLs are where all parts lie in the blob store, those of the working folder too.
func (t Transcript) URLs() (urls []string) {
	for _, p := range t.Places() {
		urls = append(urls, p.URL)
	}
	return urls
}

// PartDigest is the SHA-256, in hex, of a part as it travels, by where it lies: its name
// is LEASE-DIGEST, and what it was called since. Empty when that is no part's name.
func PartDigest(url string) string {
	const lease, digest = 36, 64
	name := url[strings.LastIndexByte(url, '/')+1:]
	if len(name) < lease+1+digest || name[lease] != '-' {
		return ""
	}
	return name[lease+1 : lease+1+digest]
}

// ContextTranscript is the transcript of a context.
type ContextTranscript struct {
	ContextID string
	Transcript
}

// Place is one part, and what it is a part of.
type Place struct {
	TranscriptPart
	Workspace bool // of the working folder, not of the conversation
}

// Places are all parts, those of the working folder too.
func (t Transcript) Places() (all []Place) {
	for _, p := range t.Parts {
		all = append(all, Place{p, false})
	}
	if t.Workspace != nil {
		for _, p := range t.Workspace.Parts {
			all = append(all, Place{p, true})
		}
	}
	return all
}

// Moved is the transcript with a part that lay at from and lies at to now; ok is false
// when it has none there.
func (t Transcript) Moved(from, to string) (_ Transcript, ok bool) {
	move := func(parts []TranscriptPart) []TranscriptPart {
		parts = slices.Clone(parts)
		for i := range parts {
			if parts[i].URL == from {
				parts[i].URL, ok = to, true
			}
		}
		return parts
	}
	t.Parts = move(t.Parts)
	if t.Workspace != nil {
		w := *t.Workspace
		w.Parts = move(w.Parts)
		t.Workspace = &w
	}
	return t, ok
}

// TranscriptFolder is where the parts of a context's transcript lie in the blob store:
// the context's id is a client's and no part of a key.
func TranscriptFolder(contextID string) string {
	sum := sha256.Sum256([]byte(contextID))
	return hex.EncodeToString(sum[:16])
}

// ForgottenContext is a context that was forgotten, for workers to forget it too.
type ForgottenContext struct {
	Seq int64  `json:"seq"`
	ID  string `json:"id"`
	At  int64  `json:"-"` // when, Unix milliseconds
}

// ContextQuery selects contexts.
type ContextQuery struct {
	Page
}
