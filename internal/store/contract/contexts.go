package contract

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/storable"
)

// ContextStore keeps the shared state of the tasks of a context. The transactions that change tasks
// update it.
type ContextStore interface {
	// Context returns one context, or ErrContextNotFound.
	Context(ctx context.Context, id string) (bloom.Context, error)
	// Contexts lists contexts, the one with the newest task first.
	Contexts(ctx context.Context, q bloom.ContextQuery) (contexts []bloom.Context, next bloom.Cursor, err error)
	// ChangeContext names or pins a context, or returns ErrContextNotFound.
	ChangeContext(ctx context.Context, id string, p ContextPatch, actor string) (bloom.Context, error)
	// Transcript returns the transcript of a context after its last completion, nil when there is
	// none.
	Transcript(ctx context.Context, contextID string) (*Transcript, error)
	// TranscriptIn returns the transcript whose parts are in a folder, nil when there is none.
	TranscriptIn(ctx context.Context, folder string) (*Transcript, error)
	// Transcripts lists at most limit transcripts in the order of their contexts' ids, after the
	// given id; with local, only those with a part in a server's folder.
	Transcripts(ctx context.Context, after string, limit int, local bool) ([]ContextTranscript, error)
	// MovePart records that a part of a context's transcript or working folder has moved from one
	// URL to another. Conflict when no part is at from.
	MovePart(ctx context.Context, contextID, from, to string) error
	// ForgetContext removes a context and its transcript and announces that to workers. Conflict
	// while one of its tasks is unfinished.
	ForgetContext(ctx context.Context, id, actor string) error
	// Forgotten lists contexts that were forgotten after the given number, oldest first.
	Forgotten(ctx context.Context, after int64, limit int) ([]bloom.ForgottenContext, error)
}

// ContextPatch changes what people call a context, and whether it is pinned. Absent fields stay.
type ContextPatch struct {
	Name   *string `json:"name,omitempty" maxLength:"200" doc:"What to call it; empty for no name" example:"Release notes"`
	Pinned *bool   `json:"pinned,omitempty" doc:"Whether it is kept at the top of lists"`
}

const (
	// MaxTranscriptParts is the most parts that a transcript may have.
	MaxTranscriptParts = 96
)

// Transcript is the conversation of a context in claude's own format: opaque bytes, stored as a
// sequence of compressed parts in the blob store.
type Transcript struct {
	SessionID string                 `json:"session_id"`
	Size      int64                  `json:"size"`   // of the whole, uncompressed
	SHA256    string                 `json:"sha256"` // of the whole, uncompressed
	Parts     []bloom.TranscriptPart `json:"parts"`
	// Workspace is the context's working folder, nil when none was saved. SessionID is empty when
	// there is only a workspace.
	Workspace *Snapshot `json:"workspace,omitempty"`
	UpdatedAt int64     `json:"-"` // Unix milliseconds
}

// Snapshot is a working folder as a tar archive: opaque bytes, stored as a sequence of compressed
// parts in the blob store.
type Snapshot struct {
	Size   int64                  `json:"size"`   // uncompressed
	SHA256 string                 `json:"sha256"` // uncompressed
	Parts  []bloom.TranscriptPart `json:"parts"`
	// OnlyOn is the worker that alone has a later version of the folder, which it could not
	// upload. SHA256 is then empty if there was no earlier one.
	OnlyOn string `json:"only_on,omitempty"`
	// TalkOnlyOn is the same of the context's transcript, which has no record of its own if it was
	// never uploaded.
	TalkOnlyOn string `json:"talk_only_on,omitempty"`
	// Suspended are the conversations and folders of the context's suspended tasks, by task. They
	// become the context's when the tasks complete.
	Suspended map[string]Suspended `json:"suspended,omitempty"`
}

// Suspended is the conversation and the folder of a suspended task.
type Suspended struct {
	Transcript
	Base       string `json:"base"`                  // the SHA256 of the context's transcript that the task began with
	FolderBase string `json:"folder_base,omitempty"` // and of its folder
}

// Suspended returns the conversation of a suspended task of the context, nil if there is none.
func (t *Transcript) Suspended(taskID string) *Suspended {
	if t == nil || t.Workspace == nil {
		return nil
	}
	s, ok := t.Workspace.Suspended[taskID]
	if !ok {
		return nil
	}
	return &s
}

// WithSuspended returns the transcript with the conversation of a suspended task, without it if s is
// nil. was may be nil.
func WithSuspended(was *Transcript, taskID string, s *Suspended) Transcript {
	t, folder := noted(was)
	if folder.Suspended = maps.Clone(folder.Suspended); folder.Suspended == nil {
		folder.Suspended = map[string]Suspended{}
	}
	if delete(folder.Suspended, taskID); s != nil {
		folder.Suspended[taskID] = *s
	}
	return t.withoutEmptyNotes()
}

func (t Transcript) withoutEmptyNotes() Transcript {
	if w := t.Workspace; w != nil && w.SHA256 == "" && w.OnlyOn == "" && w.TalkOnlyOn == "" && len(w.Suspended) == 0 {
		t.Workspace = nil
	}
	return t
}

// SuspendedBy returns the suspended conversation of a task after the update. ok is false when the
// update does not follow what is stored. t may be nil.
func (t *Transcript) SuspendedBy(taskID string, r bloom.SuspendSpec) (s Suspended, ok bool) {
	u := r.Transcript
	s.Transcript = Transcript{SessionID: u.SessionID, Size: u.Size, SHA256: u.SHA256, Parts: u.Parts}
	if u.Base != nil {
		s.Base = *u.Base
	}
	was := t.Suspended(taskID)
	if was != nil {
		s.Workspace, s.FolderBase = was.Workspace, was.FolderBase
	}
	if r.Workspace != nil {
		s.Workspace = &Snapshot{Size: r.Workspace.Size, SHA256: r.Workspace.SHA256, Parts: r.Workspace.Parts}
		if s.FolderBase = r.Workspace.After; was != nil {
			s.FolderBase = was.FolderBase
		}
	}
	if u.After == "" {
		return s, true
	}
	if was == nil || was.SHA256 != u.After || was.SessionID != u.SessionID || len(was.Parts)+len(u.Parts) > MaxTranscriptParts {
		return s, false
	}
	s.Base, s.Parts = was.Base, append(slices.Clone(was.Parts), u.Parts...)
	return s, true
}

// Whole returns the updates of a suspended task's completion as they follow the context's versions. s
// may be nil.
func (s *Suspended) Whole(c bloom.Completion) bloom.Completion {
	if s == nil {
		return c
	}
	if u := c.Transcript; u != nil && u.After == s.SHA256 && u.SessionID == s.SessionID {
		whole := *u
		whole.After, whole.Base, whole.Parts = "", &s.Base, append(slices.Clone(s.Parts), u.Parts...)
		c.Transcript = &whole
	}
	switch u := c.Workspace; {
	case s.Workspace == nil || c.Status != bloom.OutcomeSuccess:
	case u != nil && u.After == s.Workspace.SHA256:
		whole := *u
		whole.After = s.FolderBase
		c.Workspace = &whole
	case u == nil && !c.KeptFolder(): // it has not changed since
		c.Workspace = &bloom.WorkspaceUpdate{Size: s.Workspace.Size, SHA256: s.Workspace.SHA256, After: s.FolderBase, Parts: s.Workspace.Parts}
	}
	return c
}

// Text encodes the snapshot for the store; "" for nil.
func (s *Snapshot) Text() string {
	if s == nil {
		return ""
	}
	return string(storable.MustJSON(s))
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
	t.Parts = []bloom.TranscriptPart{}
	if was != nil {
		t = *was
	}
	notes = &Snapshot{Parts: []bloom.TranscriptPart{}}
	if t.Workspace != nil {
		*notes = *t.Workspace
	}
	t.Workspace = notes
	return t, notes
}

// WithWorkspace returns the transcript with a new snapshot of the working folder. ok is false when
// the snapshot does not follow the stored one. was may be nil.
func WithWorkspace(was *Transcript, u bloom.WorkspaceUpdate) (t Transcript, ok bool) {
	t.Parts = []bloom.TranscriptPart{}
	if was != nil {
		t = *was
	}
	kept := Snapshot{}
	if t.Workspace != nil {
		kept = *t.Workspace
	}
	t.Workspace = &Snapshot{Size: u.Size, SHA256: u.SHA256, Parts: u.Parts, TalkOnlyOn: kept.TalkOnlyOn, Suspended: kept.Suspended}
	return t, kept.SHA256 == u.After
}

// WithTurn returns the transcript after the update. ok is false when the update does not follow was,
// which is nil when there is no transcript.
func WithTurn(was *Transcript, u bloom.TranscriptUpdate) (t Transcript, ok bool) {
	t = Transcript{SessionID: u.SessionID, Size: u.Size, SHA256: u.SHA256, Parts: u.Parts}
	stored := ""
	if was != nil {
		t.Workspace, stored = was.Workspace, was.SHA256
	}
	if t.Workspace != nil && t.Workspace.TalkOnlyOn != "" { // what was only there is replaced
		_, folder := noted(was)
		folder.TalkOnlyOn, t.Workspace = "", folder
		t = t.withoutEmptyNotes()
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
	for _, p := range t.AllParts() {
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

// StoredPart is where one part is stored, and what it belongs to.
type StoredPart struct {
	bloom.TranscriptPart
	Workspace bool // of the working folder, not of the conversation
}

// AllParts returns all parts, including those of the working folder.
func (t Transcript) AllParts() (all []StoredPart) {
	for _, p := range t.Parts {
		all = append(all, StoredPart{p, false})
	}
	if t.Workspace != nil {
		for _, p := range t.Workspace.Parts {
			all = append(all, StoredPart{p, true})
		}
		for _, s := range t.Workspace.Suspended {
			all = append(all, s.AllParts()...)
		}
	}
	return all
}

// Moved returns the transcript with the part at URL from moved to URL to. ok is false when no part
// is at from.
func (t Transcript) Moved(from, to string) (_ Transcript, ok bool) {
	move := func(parts []bloom.TranscriptPart) []bloom.TranscriptPart {
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
		w.Suspended = maps.Clone(w.Suspended)
		for id, s := range w.Suspended {
			moved, there := s.Moved(from, to)
			s.Transcript, ok = moved, ok || there
			w.Suspended[id] = s
		}
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
