package app_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/client"
	"github.com/bloom-runtime/bloom/internal/config"
)

// TestWhatContextsKeepMovesToObjectStorage uses contexts from before there was object storage, on
// both databases.
func TestWhatContextsKeepMovesToObjectStorage(t *testing.T) {
	everywhere(t, func(t *testing.T, s *objectServer) {
		storage := s.cfg.ObjectStorage
		s.cfg.ObjectStorage = config.ObjectStorage{}
		s.start()
		for i := range 3 {
			s.spoken(fmt.Sprint("talk ", i), "hello ", fmt.Sprint("world ", i))
		}
		s.verified(3)
		if storage == (config.ObjectStorage{}) {
			return
		}
		s.stop()
		s.cfg.ObjectStorage = storage
		s.start()
		did, err := s.api.MoveArtifacts(t.Context(), nil)
		if err != nil || did.Failed > 0 || did.Contexts != 3 {
			t.Fatalf("%+v, %v", did, err)
		}
		s.verified(3)
		s.leavesNoFile(func(path string) bool { return strings.Contains(path, "/transcripts/") }) // a server moves contexts by itself, too
		for i := range 3 {
			if got, want := s.spoke(fmt.Sprint("talk ", i)), fmt.Sprint("hello world ", i); got != want {
				t.Errorf("context %d is %q, want %q", i, got, want)
			}
		}
	})
}

func (s *objectServer) verified(contexts int64) {
	s.t.Helper()
	did, err := s.api.VerifyArtifacts(s.t.Context(), func(_ bloom.VerifyReport, d *bloom.ContentDefect) {
		if d != nil {
			s.t.Errorf("found %+v", *d)
		}
	})
	if err != nil || did.Contexts != contexts || did.Defects() > 0 {
		s.t.Errorf("%+v, %v", did, err)
	}
}

// leaseIn creates a task of a context and leases it.
func (s *objectServer) leaseIn(context string) bloom.Lease {
	s.t.Helper()
	task, err := s.api.Submit(s.t.Context(), bloom.TaskSpec{ContextID: context, AgentSlug: "a", Prompt: "p"})
	must(s.t, err)
	l, err := s.api.Lease(s.t.Context(), task.ID, client.LeaseOptions{WorkerID: "w"})
	must(s.t, err)
	return l.Lease
}

// spoken completes a task of a context with a transcript of so many parts, and the same parts as
// its working folder.
func (s *objectServer) spoken(context string, parts ...string) {
	s.t.Helper()
	l := s.leaseIn(context)
	zip, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	must(s.t, err)
	defer zip.Close()
	var put, folder []bloom.TranscriptPart
	for _, text := range parts {
		frame := zip.EncodeAll([]byte(text), nil)
		p, err := s.api.PutTranscriptPart(s.t.Context(), l.TaskID, l.ID, frame)
		must(s.t, err)
		put = append(put, p)
		p, err = s.api.PutWorkspacePart(s.t.Context(), l.TaskID, l.ID, frame)
		must(s.t, err)
		folder = append(folder, p)
	}
	whole := strings.Join(parts, "")
	sum := sha256.Sum256([]byte(whole))
	_, err = s.api.Complete(s.t.Context(), l.TaskID, bloom.Completion{LeaseID: l.ID, Status: bloom.OutcomeSuccess, Output: new("out"),
		Transcript: &bloom.TranscriptUpdate{SessionID: "11111111-1111-4111-8111-111111111111", Size: int64(len(whole)), SHA256: hex.EncodeToString(sum[:]), Parts: put},
		Workspace:  &bloom.WorkspaceUpdate{Size: int64(len(whole)), SHA256: hex.EncodeToString(sum[:]), Parts: folder}})
	must(s.t, err)
}

// spoke returns the transcript of a context as its next worker gets it.
func (s *objectServer) spoke(context string) string {
	s.t.Helper()
	l := s.leaseIn(context)
	frames, err := s.api.Transcript(s.t.Context(), l.TaskID, l.ID)
	must(s.t, err)
	defer frames.Close()
	raw, err := io.ReadAll(frames)
	must(s.t, err)
	zip, err := zstd.NewReader(bytes.NewReader(raw), zstd.WithDecoderConcurrency(1))
	must(s.t, err)
	defer zip.Close()
	text, err := io.ReadAll(zip)
	must(s.t, err)
	return string(text)
}
