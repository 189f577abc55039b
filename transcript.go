package bloom

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
)

// Bounds of a transcript.
const (
	// MaxTranscript is the largest transcript that is stored, in bytes.
	MaxTranscript = 256 << 20
	// MaxTranscriptPart is the largest part of an upload, in bytes, compressed.
	MaxTranscriptPart = 16 << 20
	// MaxTranscriptParts is the most parts that a transcript may have.
	MaxTranscriptParts = 96
)

// Transcript is the conversation of a context in claude's own format: opaque bytes, stored as a
// sequence of compressed parts in the blob store.
type Transcript struct {
	SessionID string           `json:"session_id"`
	Size      int64            `json:"size"`   // of the whole, uncompressed
	SHA256    string           `json:"sha256"` // of the whole, uncompressed
	Parts     []TranscriptPart `json:"parts"`
	// Workspace is the context's working folder, nil when none was saved. SessionID is empty when
	// there is only a workspace.
	Workspace *Snapshot `json:"workspace,omitempty"`
	UpdatedAt int64     `json:"-"` // Unix milliseconds
}

// Bounds of a snapshot of a working folder.
const (
	// MaxWorkspace is the largest snapshot that is stored, in bytes of its tar archive.
	MaxWorkspace = 512 << 20
	// MaxWorkspaceFiles is the most files, folders and links in a snapshot.
	MaxWorkspaceFiles = 100_000
)

// Snapshot is a working folder as a tar archive: opaque bytes, stored as a sequence of compressed
// parts in the blob store.
type Snapshot struct {
	Size   int64            `json:"size"`   // uncompressed
	SHA256 string           `json:"sha256"` // uncompressed
	Parts  []TranscriptPart `json:"parts"`
	// OnlyOn is the worker that alone has a later version of the folder, which it could not
	// upload. SHA256 is then empty if there was no earlier one.
	OnlyOn string `json:"only_on,omitempty"`
	// TalkOnlyOn is the same of the context's transcript, which has no record of its own if it was
	// never uploaded.
	TalkOnlyOn string `json:"talk_only_on,omitempty"`
}

// Text encodes the snapshot for the store; "" for nil.
func (s *Snapshot) Text() string {
	if s == nil {
		return ""
	}
	return string(MustJSON(s))
}

// Bytes returns the snapshot's size, 0 for nil.
func (s *Snapshot) Bytes() int64 {
	if s == nil {
		return 0
	}
	return s.Size
}

// ParseSnapshot decodes what Text encoded. It returns nil for anything else.
func ParseSnapshot(text string) *Snapshot {
	s := &Snapshot{}
	if text == "" || json.Unmarshal([]byte(text), s) != nil {
		return nil
	}
	return s
}

// WorkspaceUpdate describes the context's working folder after a turn. A completion carries it; its
// parts were uploaded before, under the same lease.
type WorkspaceUpdate struct {
	Size   int64            `json:"size" required:"false" minimum:"0" maximum:"536870912" doc:"Bytes of the tar archive, uncompressed"`
	SHA256 string           `json:"sha256" minLength:"1" maxLength:"64" doc:"Of the tar archive, uncompressed"`
	After  string           `json:"after" required:"false" maxLength:"64" doc:"The sha256 of the snapshot that the task started with; empty when there was none"`
	Parts  []TranscriptPart `json:"parts" nullable:"false" minItems:"1" maxItems:"96" doc:"As returned by the uploads"`
}

// WorkspaceState is the snapshot that a task's context has, for its worker.
type WorkspaceState struct {
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256" doc:"Empty when there is no snapshot"`
	OnlyOn string `json:"only_on,omitempty" doc:"The worker that alone has the folder as the context's last task left it, because it could not be uploaded"`
}

// Codes of warnings that a worker could not upload the working folder or the transcript, which only
// it has then.
const (
	NotKept     = "workspace_not_kept"
	TalkNotKept = "transcript_not_kept"
)

// ChangesContext reports whether a completion says something about its context's conversation or
// working folder.
func (c Completion) ChangesContext() bool {
	return c.Transcript != nil || c.Workspace != nil || c.KeptFolder() || c.KeptTalk()
}

// KeptFolder reports whether the worker could not upload the working folder and has kept it.
func (c Completion) KeptFolder() bool {
	return c.warns(NotKept)
}

// KeptTalk reports whether the worker could not upload the transcript and has kept it.
func (c Completion) KeptTalk() bool { return c.Transcript == nil && c.warns(TalkNotKept) }

func (c Completion) warns(code string) bool {
	return slices.ContainsFunc(c.Metrics.Warnings, func(w Warning) bool { return w.Code == code })
}

// WithFolderOn returns the transcript with the note that only the worker has the folder as the last
// task left it. was may be nil.
func WithFolderOn(was *Transcript, worker string) (t Transcript) {
	t, folder := noted(was)
	folder.OnlyOn = worker
	return t
}

// WithTalkOn returns the transcript with the note that only the worker has it as the last task left
// it. was may be nil.
func WithTalkOn(was *Transcript, worker string) Transcript {
	t, folder := noted(was)
	folder.TalkOnlyOn = worker
	return t
}

// noted returns a copy of the transcript whose notes may be changed.
func noted(was *Transcript) (t Transcript, notes *Snapshot) {
	t.Parts = []TranscriptPart{}
	if was != nil {
		t = *was
	}
	notes = &Snapshot{Parts: []TranscriptPart{}}
	if t.Workspace != nil {
		*notes = *t.Workspace
	}
	t.Workspace = notes
	return t, notes
}

// WithWorkspace returns the transcript with a new snapshot of the working folder. ok is false when
// the snapshot does not follow the stored one. was may be nil.
func WithWorkspace(was *Transcript, u WorkspaceUpdate) (t Transcript, ok bool) {
	t.Parts = []TranscriptPart{}
	if was != nil {
		t = *was
	}
	kept := Snapshot{}
	if t.Workspace != nil {
		kept = *t.Workspace
	}
	t.Workspace = &Snapshot{Size: u.Size, SHA256: u.SHA256, Parts: u.Parts, TalkOnlyOn: kept.TalkOnlyOn}
	return t, kept.SHA256 == u.After
}

// TranscriptPart is one part as it was uploaded, compressed.
type TranscriptPart struct {
	URL  string `json:"url"`
	Size int64  `json:"size"`
}

// TranscriptUpdate describes the context's transcript after a turn. A completion carries it; its
// parts were uploaded before, under the same lease.
type TranscriptUpdate struct {
	SessionID string           `json:"session_id" minLength:"1" maxLength:"128"`
	Size      int64            `json:"size" required:"false" minimum:"0" doc:"Bytes of the whole transcript, uncompressed"`
	SHA256    string           `json:"sha256" minLength:"1" maxLength:"64" doc:"Of the whole transcript, uncompressed"`
	After     string           `json:"after" required:"false" doc:"The sha256 of the transcript that the parts are appended to; empty when they are the whole transcript"`
	Base      *string          `json:"base,omitempty" maxLength:"64" doc:"The sha256 of the transcript that the task began with, empty when there was none. The update is refused if the context has another one. Without it, only after is compared"`
	Parts     []TranscriptPart `json:"parts" required:"false" nullable:"false" maxItems:"96" doc:"As returned by the uploads"`
}

// TranscriptState is the transcript that a task's context has, for its worker.
type TranscriptState struct {
	SessionID string `json:"session_id" doc:"Empty when there is no transcript"`
	Size      int64  `json:"size"`
	SHA256    string `json:"sha256"`
	Parts     int    `json:"parts" doc:"How many parts it has"`
	Earlier   int64  `json:"earlier" doc:"How many other tasks the context has"`
	OnlyOn    string `json:"only_on,omitempty" doc:"The worker that alone has the transcript as the context's last task left it, because it could not be uploaded"`
}

// WithTurn returns the transcript after the update. ok is false when the update does not follow was,
// which is nil when there is no transcript.
func WithTurn(was *Transcript, u TranscriptUpdate) (t Transcript, ok bool) {
	t = Transcript{SessionID: u.SessionID, Size: u.Size, SHA256: u.SHA256, Parts: u.Parts}
	stored := ""
	if was != nil {
		t.Workspace, stored = was.Workspace, was.SHA256
	}
	if t.Workspace != nil && t.Workspace.TalkOnlyOn != "" { // what was only there is replaced
		_, folder := noted(was)
		folder.TalkOnlyOn = ""
		if t.Workspace = folder; folder.SHA256 == "" && folder.OnlyOn == "" {
			t.Workspace = nil
		}
	}
	if u.Base != nil && *u.Base != stored {
		return t, false
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

// Dropped returns the URLs of the parts of was that t does not have.
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

// URLs returns the URLs of all parts, including those of the working folder.
func (t Transcript) URLs() (urls []string) {
	for _, p := range t.Places() {
		urls = append(urls, p.URL)
	}
	return urls
}

// PartDigest returns the SHA-256, in hex, of a compressed part, which its URL contains: the name
// starts with LEASE-DIGEST. It returns "" for other names.
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

// Place is where one part is stored, and what it belongs to.
type Place struct {
	TranscriptPart
	Workspace bool // of the working folder, not of the conversation
}

// Places returns all parts, including those of the working folder.
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

// Moved returns the transcript with the part at URL from moved to URL to. ok is false when no part
// is at from.
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

// TranscriptFolder returns the folder of a context's transcript parts in the blob store. It is a
// hash because clients choose the context's id.
func TranscriptFolder(contextID string) string {
	sum := sha256.Sum256([]byte(contextID))
	return hex.EncodeToString(sum[:16])
}
