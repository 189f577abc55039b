package app_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/app"
	"github.com/bloom-runtime/bloom/internal/objects"
)

func TestAnExistingInstallationMovesToObjectStorage(t *testing.T) {
	t.Parallel()
	s := newObjectServer(t)
	s.stop()
	with := s.cfg.ObjectStorage
	s.cfg.MinioEndpoint = ""
	s.start()
	outputs := map[string]string{}
	for _, output := range []string{"", "in its row", strings.Repeat("in the folder ", 100_000)} {
		outputs[s.complete(output).Artifact.ID] = output
	}
	if _, err := s.api.MoveArtifacts(t.Context(), nil); err == nil {
		t.Error("a server without object storage moves")
	}
	s.stop()
	s.cfg.ObjectStorage = with
	s.start()
	for round, want := range []int64{3, 0} { // the second time nothing is left to do
		did, err := s.api.MoveArtifacts(t.Context(), nil)
		if err != nil || did.Examined != 3 || did.Moved != want || did.Failed+did.Skipped > 0 {
			t.Fatalf("round %d: %+v, %v", round, did, err)
		}
	}
	for id, want := range outputs {
		a, err := s.api.Artifact(t.Context(), id)
		must(t, err)
		got, err := s.api.ArtifactBytes(t.Context(), id)
		if a.URL == nil || !strings.HasPrefix(*a.URL, "minio://") || a.Content != nil || err != nil || string(got) != want {
			t.Errorf("moved to %+v with %d bytes, %v", a, len(got), err)
		}
	}
	if files, _ := filepath.Glob(filepath.Join(app.ArtifactsDir(s.cfg.DataDir), "installations", "*", "*", "artifacts", "*", "*")); len(files) > 0 {
		t.Errorf("left in the folder: %v", files)
	}
	if did, err := s.api.VerifyArtifacts(t.Context(), nil); err != nil || did.Examined != 3 || did.Defects() > 0 {
		t.Errorf("verified %+v, %v", did, err)
	}
}

func TestVerifyFindsWhatIsWrong(t *testing.T) {
	t.Parallel()
	s := newOutageServer(t)
	var artifacts []bloom.Artifact
	for range 4 {
		artifacts = append(artifacts, s.complete("what was recorded").Artifact)
	}
	bucket, err := objects.Open(s.bucket)
	must(t, err)
	defer bucket.Close()
	key := func(a bloom.Artifact) string { return strings.TrimPrefix(*a.URL, "minio://"+s.bucket.Bucket+"/") }
	must(t, bucket.Remove(t.Context(), key(artifacts[0])))
	_, err = bucket.Upload(t.Context(), key(artifacts[1]), bytes.NewReader([]byte("what was altered.")), 17, "text/plain")
	must(t, err)
	_, err = bucket.Upload(t.Context(), key(artifacts[2]), bytes.NewReader([]byte("cut")), 3, "text/plain")
	must(t, err)
	orphan := filepath.Join(app.ArtifactsDir(s.cfg.DataDir), filepath.Dir(key(artifacts[3])), "forgotten")
	must(t, os.MkdirAll(filepath.Dir(orphan), 0o700))
	must(t, os.WriteFile(orphan, nil, 0o600))
	long := ago(48 * 3600e9).Now()
	must(t, os.Chtimes(orphan, long, long))
	found := map[string]string{}
	did, err := s.api.VerifyArtifacts(t.Context(), func(_ bloom.VerifyReport, d *bloom.ContentDefect) {
		if d != nil {
			found[d.Kind+" "+d.ArtifactID] = d.URL
		}
	})
	must(t, err)
	if did.Examined != 4 || did.Missing != 1 || did.Differs != 2 || did.Orphaned != 1 || did.Unchecked != 0 {
		t.Errorf("verified %+v", did)
	}
	for _, want := range []string{"missing " + artifacts[0].ID, "differs " + artifacts[1].ID, "differs " + artifacts[2].ID, "orphaned "} {
		if _, ok := found[want]; !ok {
			t.Errorf("no word of %q in %v", want, found)
		}
	}
	s.minio.Stop()
	if did, err := s.api.VerifyArtifacts(t.Context(), nil); err == nil && did.Unchecked == 0 {
		t.Errorf("an unavailable storage was verified: %+v", did)
	}
}
