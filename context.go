package bloom

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
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

// TranscriptState is what a worker is told of its task's context.
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
	for _, p := range was.Parts {
		if !slices.ContainsFunc(t.Parts, func(q TranscriptPart) bool { return q.URL == p.URL }) {
			urls = append(urls, p.URL)
		}
	}
	return urls
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
}

// ContextQuery selects contexts.
type ContextQuery struct {
	Page
}
