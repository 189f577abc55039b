package store

import (
	"context"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/storable"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

var transcripts = table("transcripts", "context_id text, updated_at bigint, size bigint, session_id text, sha256 text, parts jsonb, workspace text, workspace_size bigint",
	"folder text",
	func(v []any, id string, t *contract.Transcript) []any {
		return append(v, id, t.UpdatedAt, t.Size, t.SessionID, t.SHA256, string(storable.MustJSON(t.Parts)), t.Workspace.Text(), t.Workspace.Bytes())
	}, func(v []any, id string, _ *contract.Transcript) []any {
		return append(v, contract.TranscriptFolder(id))
	})

const transcriptColumns = `x.context_id, x.session_id, x.size, x.sha256, x.parts, x.workspace, x.updated_at`

func transcriptFields(t *contract.ContextTranscript) []any {
	return []any{&t.ContextID, &t.SessionID, &t.Size, &t.SHA256, &object{&t.Parts}, (*snapshot)(&t.Transcript), &t.UpdatedAt}
}

func loadTranscripts(l *Load, v *Values[string, *contract.Transcript]) {
	l.Pick(scan(transcriptFields, func(t *contract.ContextTranscript) { v.Set(t.ContextID, &t.Transcript) }),
		`SELECT `+transcriptColumns+` FROM transcripts x`, "x.context_id", "text", v.Keys(), l.lock("x"))
}

// saveConversation stores a completed turn's changes to its context's transcript and
// working folder. A change that does not follow from the stored version is discarded:
// another task of the context has ended meanwhile. So is one whose uploads are or may
// be gone.
func (u *Unit) saveConversation(t *Task, l bloom.Lease, r contract.CompleteRequest) error {
	c := r.Completion
	if !c.ChangesContext() {
		return nil
	}
	if r.NotSaved != "" {
		u.refuseUploads(t, c, r.NotSaved)
		return nil
	}
	was, err := transcripts.get(u, t.ContextID)
	if err != nil {
		return err
	}
	updated := was
	c = was.Suspended(t.ID).Whole(c)
	if c.Transcript != nil {
		// A worker of an earlier version does not say what its whole transcript follows.
		unknown := c.Transcript.Base == nil && c.Transcript.After == "" && was != nil && was.SessionID != "" && was.UpdatedAt > l.StartedAt
		if now, ok := contract.WithTurn(updated, *c.Transcript); ok && !unknown {
			updated = &now
		} else {
			u.refuse(t, bloom.EventTranscript, "this turn is not part of the context's conversation: another task of it ended meanwhile", c.Transcript.Parts)
		}
	}
	if c.Workspace != nil {
		if now, ok := contract.WithWorkspace(updated, *c.Workspace); ok {
			updated = &now
		} else {
			u.refuse(t, bloom.EventWorkspace, "what this task made of the context's working folder is not kept: another task of the context ended meanwhile", c.Workspace.Parts)
		}
	}
	if c.Workspace == nil && c.KeptFolder() && t.WorkerID != nil {
		updated = new(contract.WithFolderOn(updated, *t.WorkerID))
	}
	if c.KeptTalk() && t.WorkerID != nil {
		updated = new(contract.WithTalkOn(updated, *t.WorkerID))
	}
	if updated != was {
		u.c.Removal.URLs = append(u.c.Removal.URLs, updated.Dropped(was)...)
		u.setTranscript(t.ContextID, updated)
	}
	return nil
}

// refuseUploads reports in the task's stream why its context was not updated.
func (u *Unit) refuseUploads(t *Task, c bloom.Completion, why string) {
	if c.Transcript != nil {
		u.refuse(t, bloom.EventTranscript, "this turn is not part of the context's conversation: "+why, nil)
	}
	if c.Workspace != nil {
		u.refuse(t, bloom.EventWorkspace, "what this task made of the context's working folder is not kept: "+why, nil)
	}
}

// refuse deletes what was uploaded for a completion and reports why in the task's
// stream.
func (u *Unit) refuse(t *Task, event, message string, parts []bloom.TranscriptPart) {
	for _, p := range parts {
		u.c.Removal.URLs = append(u.c.Removal.URLs, p.URL)
	}
	u.event(t, Event{Type: event, At: u.Now, Epoch: t.Epoch, Data: storable.MustJSON(map[string]string{"message": message})})
}

// dropSuspended removes the conversation of a task that was suspended and has ended.
func (u *Unit) dropSuspended(t *Task) error {
	was, err := transcripts.get(u, t.ContextID)
	if err != nil || was.Suspended(t.ID) == nil {
		return err
	}
	now := contract.WithSuspended(was, t.ID, nil)
	u.c.Removal.URLs = append(u.c.Removal.URLs, now.Dropped(was)...)
	u.setTranscript(t.ContextID, &now)
	return nil
}

// setTranscript writes a context's transcript, nil to delete it.
func (u *Unit) setTranscript(contextID string, t *contract.Transcript) {
	if t != nil {
		t.UpdatedAt = u.Now
	}
	transcripts.put(u, contextID, t)
}

// MovePart records the new URL of a part of a context's transcript or working folder.
func (s *Store) MovePart(ctx context.Context, contextID, from, to string) error {
	_, err := doUnbatched(ctx, s, func(r *Rows) { transcripts.want(r, contextID) }, func(u *Unit) (struct{}, error) {
		was, err := transcripts.get(u, contextID)
		if err != nil {
			return struct{}{}, err
		}
		if was != nil {
			if now, ok := was.Moved(from, to); ok {
				u.setTranscript(contextID, &now)
				return struct{}{}, nil
			}
		}
		return struct{}{}, bloom.Conflict("The context's content was moved or replaced in the meantime")
	})
	return err
}

// Transcript reads a context's transcript, nil if there is none.
func (s *Store) Transcript(ctx context.Context, contextID string) (*contract.Transcript, error) {
	return s.transcript(ctx, `x.context_id = $1`, contextID)
}

// TranscriptIn reads the transcript whose parts are in a folder, nil if there is
// none.
func (s *Store) TranscriptIn(ctx context.Context, folder string) (*contract.Transcript, error) {
	return s.transcript(ctx, `x.folder = $1`, folder)
}

func (s *Store) transcript(ctx context.Context, by, value string) (*contract.Transcript, error) {
	found, err := all(ctx, s, transcriptFields, `SELECT `+transcriptColumns+` FROM transcripts x WHERE `+by, value)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return &found[0].Transcript, nil
}

// Transcripts lists transcripts by context. With local it lists only those of which a
// part is in a folder or in the database.
func (s *Store) Transcripts(ctx context.Context, after string, limit int, local bool) ([]contract.ContextTranscript, error) {
	from := ` FROM transcripts x`
	if local {
		from += s.sql.Via("transcripts_local")
	}
	if from += ` WHERE x.context_id > $1`; local {
		from += ` AND ` + s.sql.LocalParts
	}
	return all(ctx, s, transcriptFields, `SELECT `+transcriptColumns+from+` ORDER BY x.context_id LIMIT CAST($2 AS BIGINT)`, after, limit)
}
