package app_test

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/client"
	"github.com/bloom-runtime/bloom/internal/config"
	"github.com/bloom-runtime/bloom/internal/miniotest"
	"github.com/bloom-runtime/bloom/internal/objects"
	"github.com/bloom-runtime/bloom/internal/pgtest"
)

func TestFilesAreAcceptedWhileTheStorageIsUnavailable(t *testing.T) {
	t.Parallel()
	s := newOutageServer(t)
	task, lease := s.held()
	s.minio.Stop()
	content := strings.Repeat("kept here ", 5<<20) // more than completions contain
	for i := range 2 {
		_, err := s.api.PutFile(t.Context(), task, lease, client.File{Path: fmt.Sprint("out/", i)}, strings.NewReader(content), int64(len(content)))
		must(t, err)
	}
	output := "done"
	_, err := s.api.Complete(t.Context(), task, bloom.Completion{LeaseID: lease, Status: bloom.OutcomeSuccess, Output: &output})
	must(t, err)
	s.minio.Start(t)
	s.settled()
	list, _, err := s.api.Artifacts(t.Context(), bloom.ArtifactQuery{TaskID: task})
	must(t, err)
	for _, a := range list {
		if got, err := s.api.ArtifactBytes(t.Context(), a.ID); a.Path != "" && (err != nil || string(got) != content) {
			t.Errorf("%s has %d bytes, %v", a.Path, len(got), err)
		}
	}
	s.nothingLiesAround()
}

// sharedServers returns two servers with one database and one bucket.
func sharedServers(t *testing.T) (one, two *objectServer) {
	t.Helper()
	one = &objectServer{t: t, minio: miniotest.Start(t), cfg: serverConfig(t)}
	one.bucket = one.minio.Bucket()
	one.cfg.DatabaseURL = config.Secret(pgtest.Start(t))
	one.cfg.ObjectStorage = config.ObjectStorage{MinioEndpoint: one.bucket.Endpoint, MinioAccessKey: config.Secret(one.bucket.AccessKey), MinioSecretKey: config.Secret(one.bucket.SecretKey)}
	one.cfg.ArtifactBucket = one.bucket.Bucket
	one.start()
	two = &objectServer{t: t, minio: one.minio, bucket: one.bucket, cfg: one.cfg}
	two.cfg.DataDir = t.TempDir()
	return one, two
}

// Only one of the servers sweeps the bucket that they share: its mark changes when the other takes
// over, and not before.
func TestOneOfTwoServersSweeps(t *testing.T) {
	t.Parallel()
	one, two := sharedServers(t)
	first := one.isMarked("")
	two.start()
	place := func(s *objectServer) string {
		url := *s.complete("text").Artifact.URL
		return url[:strings.Index(url, "/artifacts/")]
	}
	if a, b := place(one), place(two); a != b {
		t.Errorf("content is in %s and in %s", a, b)
	}
	if now := one.isMarked(""); now != first {
		t.Errorf("both swept: %s, then %s", first, now)
	}
	one.stop()
	two.isMarked(first)
}

// Servers that share a database share no folder: a file that one accepts while the object storage
// is unavailable is on all of them immediately.
func TestAFileOfAnOutageIsOnEveryServer(t *testing.T) {
	t.Parallel()
	one, two := sharedServers(t)
	two.start()
	task, lease := one.held()
	one.minio.Stop()
	large := bytes.Repeat([]byte("\x00\xff large"), 1<<19)
	file, err := one.api.PutFile(t.Context(), task, lease, client.File{Path: "out/a.bin"}, bytes.NewReader(large), int64(len(large)))
	must(t, err)
	output := strings.Repeat("output", 100_000)
	done, err := one.api.Complete(t.Context(), task, bloom.Completion{LeaseID: lease, Status: bloom.OutcomeSuccess, Output: &output})
	must(t, err)
	one.spoken("talk", "hello ", "world")
	same := func(when string) {
		t.Helper()
		for _, s := range []*objectServer{one, two} {
			if got, err := s.api.ArtifactBytes(t.Context(), file.ID); err != nil || !bytes.Equal(got, large) {
				t.Errorf("%s the file has %d bytes, %v", when, len(got), err)
			}
			if got, err := s.api.ArtifactBytes(t.Context(), done.Artifact.ID); err != nil || string(got) != output {
				t.Errorf("%s the output has %d bytes, %v", when, len(got), err)
			}
		}
		if res, body := two.get(file.ID, "", "Range", "bytes=3145727-3145737"); res.StatusCode != http.StatusPartialContent || body != string(large[3145727:3145738]) {
			t.Errorf("%s a part is %d %q", when, res.StatusCode, body)
		}
	}
	same("while the storage is unavailable")
	if got := two.spoke("talk"); got != "hello world" {
		t.Errorf("while the storage is unavailable the context's transcript is %q on the other server", got)
	}
	one.stop() // the other one also moves it
	one.minio.Start(t)
	two.settled()
	one.start()
	same("afterwards")
	bucket, err := objects.Open(one.bucket)
	must(t, err)
	defer bucket.Close()
	parts := 0
	for object, err := range bucket.List(t.Context(), "installations/") {
		must(t, err)
		if strings.Contains(object.Key, "/transcripts/") {
			parts++
		}
	}
	if got := two.spoke("talk"); got != "hello world" || parts < 2 {
		t.Errorf("afterwards the context's transcript is %q, of which %d parts are in the bucket", got, parts)
	}
	two.nothingLiesAround()
	if did, err := two.api.VerifyArtifacts(t.Context(), nil); err != nil || did.Defects() > 0 {
		t.Errorf("verified %+v, %v", did, err)
	}
}
