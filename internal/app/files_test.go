package app_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/client"
	"github.com/bloom-runtime/bloom/internal/objects"
)

// putFile uploads like any client; sum is the announced digest, "" for the correct one.
func (s *objectServer) putFile(task, lease, path, content, sum string) (status int, body string) {
	s.t.Helper()
	if sum == "" {
		raw := sha256.Sum256([]byte(content))
		sum = hex.EncodeToString(raw[:])
	}
	q := url.Values{"lease_id": {lease}, "path": {path}, "sha256": {sum}, "tag": {"one", "two"}}
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodPut, s.url+"/api/runtime/llm-tasks/"+task+"/artifacts?"+q.Encode(), strings.NewReader(content))
	must(s.t, err)
	if len(content) > 256<<10 { // a refusal would cut a large upload before it is read
		req.Header.Set("Expect", "100-continue")
	}
	res, body := fetch(s.t, req)
	return res.StatusCode, body
}

// onBoth runs a test with object storage and with the folder.
func onBoth(t *testing.T, test func(t *testing.T, s *objectServer, scheme string)) {
	t.Parallel()
	t.Run("s3", func(t *testing.T) {
		t.Parallel()
		test(t, newObjectServer(t), "minio://")
	})
	t.Run("local", func(t *testing.T) {
		t.Parallel()
		s := &objectServer{t: t, cfg: serverConfig(t)}
		s.start()
		test(t, s, "file:")
	})
}

func TestFilesOfARunAreArtifacts(t *testing.T) {
	onBoth(t, func(t *testing.T, s *objectServer, scheme string) {
		task, lease := s.held()
		large := bytes.Repeat([]byte("large "), 1<<20)
		files := map[string][]byte{"out/report.md": []byte("# report"), "out/größe \"x\".bin": large, "empty": {}}
		for path, content := range files {
			a, err := s.api.PutFile(t.Context(), task, lease, client.File{Path: path, Tags: []string{"out/**"}}, bytes.NewReader(content), int64(len(content)))
			must(t, err)
			again, err := s.api.PutFile(t.Context(), task, lease, client.File{Path: path}, bytes.NewReader(content), int64(len(content)))
			if err != nil || again.ID != a.ID {
				t.Errorf("a repeat made %s, %v", again.ID, err)
			}
			if a.Path != path || a.Type != bloom.ArtifactFile || a.Epoch != 1 || a.Size != int64(len(content)) || !strings.HasPrefix(*a.URL, scheme) || len(a.Tags) != 1 {
				t.Errorf("%s is %+v", path, a)
			}
		}
		output := "done"
		_, err := s.api.Complete(t.Context(), task, bloom.Completion{LeaseID: lease, Status: bloom.OutcomeSuccess, Output: &output})
		must(t, err)
		list, _, err := s.api.Artifacts(t.Context(), bloom.ArtifactQuery{TaskID: task})
		must(t, err)
		for _, a := range list {
			if a.Path == "" {
				continue
			}
			got, err := s.api.ArtifactBytes(t.Context(), a.ID)
			if err != nil || !bytes.Equal(got, files[a.Path]) {
				t.Errorf("%s has %d bytes, %v", a.Path, len(got), err)
			}
			delete(files, a.Path)
			if res, _ := s.get(a.ID, ""); a.Path == "out/report.md" && (res.Header.Get("Content-Disposition") != "attachment; filename=report.md" || !strings.HasPrefix(res.Header.Get("Content-Type"), "text/plain")) {
				t.Errorf("served as %v", res.Header)
			}
		}
		if len(list) < 4 || len(files) > 0 {
			t.Errorf("not listed: %v", files)
		}
		if did, err := s.api.VerifyArtifacts(t.Context(), nil); err != nil || did.Defects() > 0 {
			t.Errorf("verified %+v, %v", did, err)
		}
	})
}

func TestFilesAreRefused(t *testing.T) {
	onBoth(t, func(t *testing.T, s *objectServer, _ string) {
		s.stop()
		s.cfg.ArtifactLimitMiB = 1
		s.start()
		task, lease := s.held()
		other, foreign := s.held()
		for name, c := range map[string]struct {
			task, lease, path, content, sum string
			status                          int
		}{
			"no lease":                {task, "", "a", "x", "", 409},
			"another task's lease":    {task, foreign, "a", "x", "", 409},
			"no such task":            {"01a200e7-b5a7-7e38-a08a-38a5ee908cda", lease, "a", "x", "", 404},
			"a path that leads out":   {task, lease, "../a", "x", "", 400},
			"an absolute path":        {task, lease, "/etc/passwd", "x", "", 400},
			"a path with a NUL":       {task, lease, "a\x00b", "x", "", 400},
			"a transcript's path":     {task, lease, bloom.RunLogPath(1, 4), "x", "", 400},
			"a path that is too long": {task, lease, strings.Repeat("a", 1025), "x", "", 400},
			"another digest":          {task, lease, "a", "x", strings.Repeat("0", 64), 400},
			"no digest":               {task, lease, "a", "x", "abc", 400},
			"too large":               {task, lease, "a", strings.Repeat("x", 1<<20+1), "", 413},
		} {
			if status, body := s.putFile(c.task, c.lease, c.path, c.content, c.sum); status != c.status || !strings.Contains(body, `"code":`) {
				t.Errorf("%s: %d %s", name, status, body)
			}
		}
		if status, body := s.putFile(task, lease, "a", strings.Repeat("x", 1<<20), ""); status != 200 {
			t.Errorf("the largest: %d %s", status, body)
		}
		if status, body := s.putFile(task, lease, "a", "other", ""); status != 409 {
			t.Errorf("another file at the same path: %d %s", status, body)
		}
		output := "done"
		_, err := s.api.Complete(t.Context(), other, bloom.Completion{LeaseID: foreign, Status: bloom.OutcomeSuccess, Output: &output})
		must(t, err)
		if status, body := s.putFile(other, foreign, "late", "x", ""); status != 409 || !strings.Contains(body, "lease_lost") {
			t.Errorf("after the completion: %d %s", status, body)
		}
		s.nothingLiesAround()
		s.stop()
		s.cfg.ArtifactLimitMiB = 0
		s.start()
		if status, body := s.putFile(task, lease, "b", "x", ""); status != 409 || !strings.Contains(body, "artifacts_disabled") {
			t.Errorf("where none are taken: %d %s", status, body)
		}
	})
}

func TestAWorkerUploadsUnderItsOwnLeasesOnly(t *testing.T) {
	t.Parallel()
	s := &objectServer{t: t, cfg: serverConfig(t)}
	s.start()
	task, lease := s.held()
	first, err := s.api.CreateKey(t.Context(), bloom.KeySpec{Name: "me", Role: bloom.RoleAdmin})
	must(t, err)
	admin, err := client.New(s.url, client.Options{APIKey: first.Key})
	must(t, err)
	defer admin.Close()
	keys := map[string]string{}
	for _, name := range []string{"w", "other"} {
		key, err := admin.CreateKey(t.Context(), bloom.KeySpec{Name: name, Role: bloom.RoleWorker, WorkerID: name})
		must(t, err)
		keys[name] = key.Key
	}
	for name, want := range map[string]bool{"other": false, "w": true} {
		api, err := client.New(s.url, client.Options{APIKey: keys[name], Retry: client.NoRetry})
		must(t, err)
		defer api.Close()
		_, err = api.PutFile(t.Context(), task, lease, client.File{Path: "a"}, strings.NewReader("x"), 1)
		if (err == nil) != want || !want && bloom.KindOf(err) != bloom.KindForbidden {
			t.Errorf("%s uploads: %v", name, err)
		}
	}
}

// nothingLiesAround checks that every stored file belongs to an artifact.
func (s *objectServer) nothingLiesAround() {
	s.t.Helper()
	named := map[string]bool{}
	for a, err := range s.api.AllArtifacts(s.t.Context(), bloom.ArtifactQuery{}) {
		must(s.t, err)
		if a.URL != nil {
			named[(*a.URL)[strings.Index(*a.URL, "installations/"):]] = true
		}
	}
	s.leavesNoFile(func(path string) bool { return strings.Contains(path, "/artifacts/") && !named[path] })
	if s.minio == nil {
		return
	}
	bucket, err := objects.Open(s.bucket)
	must(s.t, err)
	defer bucket.Close()
	for object, err := range bucket.List(s.t.Context(), "installations/") {
		must(s.t, err)
		if strings.Contains(object.Key, "/artifacts/") && !named[object.Key] {
			s.t.Errorf("%s lies around", object.Key)
		}
	}
}
