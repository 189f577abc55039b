package cli_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/miniotest"
	"github.com/bloom-runtime/bloom/internal/objects"
)

// artifactServer starts a server on a data directory with the additional arguments more.
func artifactServer(t *testing.T, dir string, more ...string) *stage {
	s := newStage(t, "server")
	s.start(append([]string{"--data-dir=" + dir, "--listen=127.0.0.1:0", "--no-membridge"}, more...)...)
	s.url() // waits
	return s
}

func TestArtifactsAreMovedAndVerifiedByCommand(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	bucket := miniotest.Shared(t).Bucket()
	minio := []string{"--minio-endpoint=" + bucket.Endpoint, "--minio-access-key=" + bucket.AccessKey, "--minio-secret-key=" + bucket.SecretKey, "--minio-artifact-bucket=" + bucket.Bucket}
	s := artifactServer(t, dir)
	outputs := map[string]string{}
	for i := range 60 {
		task := s.heldTask()
		output := fmt.Sprint(i, strings.Repeat(" output", i%4*20_000)) // in rows and in the folder
		s.wants(200, "POST", s.url()+"/api/runtime/llm-tasks/"+task+"/complete", `{"status":"success","output":"`+output+`"}`)
		outputs[task] = output
	}
	s.stop()
	// Killed in the middle of the move, then repeated.
	s = artifactServer(t, dir, minio...)
	moved := func() (n int) {
		for a, err := range s.api().AllArtifacts(t.Context(), bloom.ArtifactQuery{}) {
			if err != nil {
				return n
			}
			if a.URL != nil && strings.HasPrefix(*a.URL, "minio:") {
				n++
			}
		}
		return n
	}
	ended := make(chan int, 1)
	url := s.url()
	go func() { _, code := s.run("artifacts", "move", "--url", url); ended <- code }()
	s.await("some artifacts to be moved", func() bool { return moved() > 0 })
	_ = s.cmd.Process.Kill()
	if code := <-ended; code == 0 {
		t.Log("the move ended before the server was killed")
	}
	s = artifactServer(t, dir, minio...)
	out, code := s.run("artifacts", "move", "--url", s.url())
	if code != 0 || moved() != len(outputs) {
		t.Fatalf("move: exit %d, %d moved: %s", code, moved(), out)
	}
	if out, code := s.run("artifacts", "verify", "--url", s.url()); code != 0 || !strings.Contains(out, "60 artifacts") {
		t.Errorf("verify: exit %d: %s", code, out)
	}
	var all []bloom.Artifact
	for a, err := range s.api().AllArtifacts(t.Context(), bloom.ArtifactQuery{}) {
		if err != nil {
			t.Fatal(err)
		}
		got, err := s.api().ArtifactBytes(t.Context(), a.ID)
		if err != nil || string(got) != outputs[a.TaskID] {
			t.Errorf("artifact %s has %d bytes, %v", a.ID, len(got), err)
		}
		all = append(all, a)
	}
	b, err := objects.Open(bucket)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	key := func(a bloom.Artifact) string { return strings.TrimPrefix(*a.URL, "minio://"+bucket.Bucket+"/") }
	orphan := filepath.Join(dir, "artifacts", filepath.Dir(filepath.FromSlash(key(all[2]))), "forgotten")
	for _, c := range []struct {
		name string
		do   func() error
		undo func() error
	}{
		{"missing", func() error { return b.Remove(t.Context(), key(all[0])) }, func() error {
			text := outputs[all[0].TaskID]
			_, err := b.Upload(t.Context(), key(all[0]), strings.NewReader(text), int64(len(text)), "text/plain")
			return err
		}},
		{"differs", func() error {
			_, err := b.Upload(t.Context(), key(all[1]), bytes.NewReader([]byte("other")), 5, "text/plain")
			return err
		}, func() error {
			text := outputs[all[1].TaskID]
			_, err := b.Upload(t.Context(), key(all[1]), strings.NewReader(text), int64(len(text)), "text/plain")
			return err
		}},
		{"orphaned", func() error {
			old := time.Now().Add(-48 * time.Hour)
			if err := os.MkdirAll(filepath.Dir(orphan), 0o700); err != nil {
				return err
			}
			if err := os.WriteFile(orphan, nil, 0o600); err != nil {
				return err
			}
			return os.Chtimes(orphan, old, old)
		}, func() error { return os.Remove(orphan) }},
	} {
		if err := c.do(); err != nil {
			t.Fatal(err)
		}
		if out, code := s.run("artifacts", "verify", "--url", s.url()); code != 1 || !strings.Contains(out, c.name+": artifact ") {
			t.Errorf("%s: exit %d: %s", c.name, code, out)
		}
		if err := c.undo(); err != nil {
			t.Fatal(err)
		}
		if out, code := s.run("artifacts", "verify", "--url", s.url()); code != 0 {
			t.Errorf("%s, mended: exit %d: %s", c.name, code, out)
		}
	}
	out, _ = s.run("doctor", "--url", s.url(), "--data-dir", dir)
	if !strings.Contains(out, "artifacts") || !strings.Contains(out, "write, conditional_write, read, delete") {
		t.Errorf("doctor: %s", out)
	}
}
