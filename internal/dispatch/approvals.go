package dispatch

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/storable"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

// approvalExpiry is how long a request waits for a person before it is denied.
const approvalExpiry = 24 * time.Hour

// approvalIDs is the namespace of requests' ids, which follow from the task and the call.
var approvalIDs = uuid.MustParse("0e9b5a4e-52f3-4c1c-9d0b-6f6b3a1f7d10")

// Ask stores a worker's request, or returns the one that it has stored already, and waits for the
// decision.
func (s *Service) Ask(ctx context.Context, taskID string, q bloom.Ask) (bloom.Approval, error) {
	if !storable.IsID(taskID) || !storable.IsID(q.LeaseID) {
		return bloom.Approval{}, bloom.ErrLeaseLost
	}
	var input bytes.Buffer
	if len(q.Input) > bloom.MaxApprovalInput || json.Compact(&input, q.Input) != nil || storable.Text(input.String()) != input.String() {
		return bloom.Approval{}, bloom.Invalid("The input cannot be shown to people", bloom.FieldError{Field: "input", Message: fmt.Sprintf("must be JSON of at most %d bytes", bloom.MaxApprovalInput)})
	}
	sum := sha256.Sum256(input.Bytes())
	a := bloom.Approval{
		TaskID: taskID, Kind: q.Kind, Tool: storable.Text(q.Tool), ToolUseID: storable.Text(q.ToolUseID), Input: input.Bytes(), InputSHA256: hex.EncodeToString(sum[:]),
		ExpiresAt: approvalExpiry.Milliseconds(),
	}
	a.ID = uuid.NewSHA1(approvalIDs, []byte(taskID+"\x00"+a.ToolUseID+"\x00"+a.Tool+"\x00"+a.InputSHA256)).String()
	a.Readable = readable(a.Tool, a.Input)
	changed, stop := s.feeds.watchTask(taskID)
	defer stop()
	deadline := time.NewTimer(time.Duration(q.WaitMS) * time.Millisecond)
	defer deadline.Stop()
	for {
		is, err := s.store.AskApproval(ctx, q.LeaseID, a)
		if err != nil || is.Status != bloom.ApprovalPending || q.WaitMS == 0 {
			return is, err
		}
		poll := time.NewTimer(jittered(s.poll))
		select {
		case <-changed:
		case <-poll.C:
		case <-deadline.C:
			q.WaitMS = 0 // a last look
		case <-s.closing:
			return is, nil
		case <-ctx.Done():
			return is, nil
		}
		poll.Stop()
	}
}

// Suspend ends a lease whose run waits for a person.
func (s *Service) Suspend(ctx context.Context, taskID string, spec bloom.SuspendSpec, actor string) (bloom.Task, error) {
	if !storable.IsID(spec.LeaseID) || !storable.IsID(spec.ApprovalID) {
		return bloom.Task{}, bloom.ErrLeaseLost
	}
	check := contract.CompleteRequest{TaskID: taskID, Completion: bloom.Completion{LeaseID: spec.LeaseID, Transcript: &spec.Transcript, Workspace: spec.Workspace}}
	if err := s.Transcripts.Check(ctx, &check); err != nil {
		return bloom.Task{}, err
	}
	if check.NotSaved != "" {
		return bloom.Task{}, bloom.Conflict("The run cannot be suspended: %s", check.NotSaved)
	}
	return s.store.Suspend(ctx, contract.SuspendRequest{TaskID: taskID, ContextID: check.ContextID, SuspendSpec: spec, Actor: actor})
}

// Decide decides a request.
func (s *Service) Decide(ctx context.Context, id string, d bloom.Decision, actor string) (bloom.Approval, error) {
	d.Message = storable.Text(d.Message)
	is, err := s.store.Approval(ctx, id)
	if err != nil {
		return is, err
	}
	switch {
	case is.Kind == bloom.ApprovalQuestion && d.Decision == "allow":
		if d.Answers, err = answers(is.Input, d.Answers); err != nil {
			return is, err
		}
	case len(d.Answers) > 0:
		return is, bloom.Invalid("Only a question has answers", bloom.FieldError{Field: "answers", Message: "must be absent"})
	}
	return s.store.Decide(ctx, id, d, actor)
}

// question is one of the questions of AskUserQuestion.
type question struct {
	Question string `json:"question"`
	Options  []struct {
		Label       string `json:"label"`
		Description string `json:"description"`
	} `json:"options"`
}

func questions(input json.RawMessage) []question {
	var in struct {
		Questions []question `json:"questions"`
	}
	_ = json.Unmarshal(input, &in)
	return in.Questions
}

// answers returns the answers to a question's own questions, each of which must have one.
func answers(input json.RawMessage, given map[string]string) (map[string]string, error) {
	is := map[string]string{}
	for _, q := range questions(input) {
		answer := storable.Cut(storable.Text(given[q.Question]), 4<<10)
		if answer == "" {
			return nil, bloom.Invalid("Every question needs an answer", bloom.FieldError{Field: "answers", Message: "lacks the answer to: " + q.Question})
		}
		is[q.Question] = answer
	}
	return is, nil
}

// readable returns a call for people.
func readable(tool string, input json.RawMessage) string {
	var in struct {
		Command   string `json:"command"`
		FilePath  string `json:"file_path"`
		Content   string `json:"content"`
		OldString string `json:"old_string"`
		NewString string `json:"new_string"`
		URL       string `json:"url"`
		Edits     []struct {
			OldString string `json:"old_string"`
			NewString string `json:"new_string"`
		} `json:"edits"`
	}
	_ = json.Unmarshal(input, &in)
	change := func(mark, text string) string {
		if text == "" {
			return ""
		}
		return mark + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n"+mark) + "\n"
	}
	var b strings.Builder
	switch {
	case tool == "Bash" && in.Command != "":
		return in.Command
	case tool == "Write" && in.FilePath != "":
		b.WriteString(in.FilePath + "\n" + change("+ ", in.Content))
	case (tool == "Edit" || tool == "MultiEdit") && in.FilePath != "":
		b.WriteString(in.FilePath + "\n" + change("- ", in.OldString) + change("+ ", in.NewString))
		for _, e := range in.Edits {
			b.WriteString(change("- ", e.OldString) + change("+ ", e.NewString))
		}
	case tool == "WebFetch" && in.URL != "":
		return in.URL
	case len(questions(input)) > 0:
		for _, q := range questions(input) {
			b.WriteString(q.Question + "\n")
			for _, o := range q.Options {
				b.WriteString("  · " + o.Label)
				if o.Description != "" {
					b.WriteString(": " + o.Description)
				}
				b.WriteString("\n")
			}
		}
	default:
		var indented bytes.Buffer
		_ = json.Indent(&indented, input, "", "  ")
		return tool + " " + indented.String()
	}
	return strings.TrimSuffix(b.String(), "\n")
}
