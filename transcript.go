package bloom

import (
	"slices"
)

// Bounds of a transcript.
const (
	// MaxTranscript is the largest transcript that is stored, in bytes.
	MaxTranscript = 256 << 20
	// MaxTranscriptPart is the largest part of an upload, in bytes, compressed.
	MaxTranscriptPart = 16 << 20
)

// MaxWorkspace is the largest snapshot of a working folder that is stored, in bytes of its tar archive.
const MaxWorkspace = 512 << 20

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
	SessionID string  `json:"session_id" doc:"Empty when there is no transcript"`
	Size      int64   `json:"size"`
	SHA256    string  `json:"sha256"`
	Parts     int     `json:"parts" doc:"How many parts it has"`
	Earlier   int64   `json:"earlier" doc:"How many other tasks the context has"`
	Base      *string `json:"base,omitempty" doc:"Of a task that was suspended, whose own transcript this is: the sha256 of the context's when it began"`
	OnlyOn    string  `json:"only_on,omitempty" doc:"The worker that alone has the transcript as the context's last task left it, because it could not be uploaded"`
}
