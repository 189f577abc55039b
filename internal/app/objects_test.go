package app_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/client"
	"github.com/bloom-runtime/bloom/internal/app"
	"github.com/bloom-runtime/bloom/internal/config"
	"github.com/bloom-runtime/bloom/internal/miniotest"
	"github.com/bloom-runtime/bloom/internal/objects"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

// objectServer is a running server whose artifacts go to a bucket.
type objectServer struct {
	t      *testing.T
	minio  *miniotest.Server
	bucket objects.Config
	cfg    config.Server
	api    *client.Client
	url    string
	stop   func()

	removals int // audited at the last check
}

func newObjectServer(t *testing.T) *objectServer {
	t.Helper()
	return serverOver(t, miniotest.Shared(t))
}

// newOutageServer returns one whose storage the test may stop.
func newOutageServer(t *testing.T) *objectServer {
	t.Helper()
	return serverOver(t, miniotest.Start(t))
}

func serverOver(t *testing.T, storage *miniotest.Server) *objectServer {
	t.Helper()
	s := &objectServer{t: t, minio: storage, cfg: serverConfig(t)}
	s.bucket = s.minio.Bucket()
	s.cfg.ObjectStorage = config.ObjectStorage{MinioEndpoint: s.bucket.Endpoint,
		MinioAccessKey: config.Secret(s.bucket.AccessKey), MinioSecretKey: config.Secret(s.bucket.SecretKey)}
	s.cfg.ArtifactBucket = s.bucket.Bucket
	s.start()
	return s
}

// start runs the server until stop or the end of the test.
func (s *objectServer) start() {
	s.t.Helper()
	server, err := app.OpenServer(s.t.Context(), s.cfg, build())
	must(s.t, err)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx, context.Background()) }()
	s.url = server.URL()
	s.api, err = client.New(s.url, client.Options{})
	must(s.t, err)
	stopped := false
	s.stop = func() {
		if stopped {
			return
		}
		stopped = true
		s.api.Close()
		stop()
		if err := <-ended; err != nil {
			s.t.Error(err)
		}
		if err := server.Close(); err != nil {
			s.t.Error(err)
		}
	}
	s.t.Cleanup(func() { s.stop() })
	s.register()
}

// register sets the worker online, also after a minute without a word from it.
func (s *objectServer) register() {
	s.t.Helper()
	_, err := s.api.RegisterWorker(s.t.Context(), bloom.WorkerSpec{Name: "w", Status: bloom.WorkerOnline, Capabilities: bloom.Capabilities{ClaudeCLI: true, MaxConcurrency: 32}})
	must(s.t, err)
}

// held creates a task and leases it.
func (s *objectServer) held() (task, lease string) {
	s.t.Helper()
	made, err := s.api.Submit(s.t.Context(), bloom.TaskSpec{ContextID: "c", AgentSlug: "a", Prompt: "p"})
	must(s.t, err)
	s.register()
	l, err := s.api.Lease(s.t.Context(), made.ID, client.LeaseOptions{WorkerID: "w"})
	must(s.t, err)
	return made.ID, l.Lease.ID
}

func (s *objectServer) complete(output string) bloom.Completed {
	s.t.Helper()
	task, lease := s.held()
	done, err := s.api.Complete(s.t.Context(), task, bloom.Completion{LeaseID: lease, Status: bloom.OutcomeSuccess, Output: &output})
	must(s.t, err)
	return done
}

// get requests an artifact's content and follows no redirect.
func (s *objectServer) get(id, query string, headers ...string) (*http.Response, string) {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.url+"/api/runtime/artifacts/"+id+"/content"+query, nil)
	must(s.t, err)
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	return fetch(s.t, req)
}

func fetch(t *testing.T, req *http.Request) (*http.Response, string) {
	t.Helper()
	web := http.Client{Transport: &http.Transport{DisableKeepAlives: true, ExpectContinueTimeout: time.Minute}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := web.Do(req)
	must(t, err)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	must(t, err)
	return res, string(body)
}

// isMarked waits until a server has marked its installation's part of the bucket with another mark
// than before, and returns it.
func (s *objectServer) isMarked(before string) string {
	s.t.Helper()
	bucket, err := objects.Open(s.bucket)
	must(s.t, err)
	defer bucket.Close()
	var keys []string
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		keys = nil
		for object, err := range bucket.List(s.t.Context(), "installations/") {
			must(s.t, err)
			if keys = append(keys, object.Key); !strings.HasSuffix(object.Key, "/mark") {
				continue
			}
			mark, _, err := bucket.Read(s.t.Context(), object.Key)
			must(s.t, err)
			if string(mark) != before {
				return string(mark)
			}
		}
	}
	s.t.Fatalf("no other mark than %q among %v", before, keys)
	return ""
}

func TestArtifactsAreStoredInObjectStorage(t *testing.T) {
	t.Parallel()
	s := newObjectServer(t)
	for name, output := range map[string]string{"short": "Hello", "empty": "", "long": strings.Repeat("long ", 1<<20)} {
		done := s.complete(output)
		a := done.Artifact
		if a.Content != nil || a.URL == nil || !strings.HasPrefix(*a.URL, "minio://"+s.bucket.Bucket+"/installations/") || !strings.Contains(*a.URL, "/artifacts/"+a.TaskID+"/") {
			t.Fatalf("%s: the artifact is %+v", name, a)
		}
		results, err := s.api.Results(t.Context(), a.TaskID)
		must(t, err)
		if len(results) != 1 || results[0].Output == nil || *results[0].Output != output {
			t.Errorf("%s: the result lost its output", name)
		}
		if got, err := s.api.ArtifactBytes(t.Context(), a.ID); err != nil || string(got) != output {
			t.Errorf("%s: content of %d bytes, %v", name, len(got), err)
		}
	}
	s.isMarked("")
	health, err := s.api.Health(t.Context())
	must(t, err)
	if h := health.Artifacts; h.Kind != "s3" || !h.Connected || strings.Join(h.Can, " ") != "write conditional_write read delete" {
		t.Errorf("health shows %+v", h)
	}
}

// A worker key must not be able to make the object storage look unavailable.
func TestAnInvalidPartNameDoesNotMakeTheStorageUnavailable(t *testing.T) {
	t.Parallel()
	s := newObjectServer(t)
	task, lease := s.held()
	digest := strings.Repeat("ab", 32)
	own := func(lease string) string {
		return "transcripts/" + contract.TranscriptFolder("c") + "/" + lease + "-" + digest
	}
	complete := func(task, lease, url string) error {
		t.Helper()
		_, err := s.api.Complete(s.t.Context(), task, bloom.Completion{LeaseID: lease, Status: bloom.OutcomeSuccess, Output: new("x"),
			Transcript: &bloom.TranscriptUpdate{SessionID: "11111111-1111-4111-8111-111111111111", Size: 1, SHA256: digest, Parts: []bloom.TranscriptPart{{URL: url, Size: 1}}}})
		health, healthErr := s.api.Health(t.Context())
		must(t, healthErr)
		if h := health.Artifacts; !h.Connected || h.LastError != nil {
			t.Fatalf("%.80s: health shows %+v", url, h)
		}
		return err
	}
	ours, in := own(lease), "minio://"+s.bucket.Bucket+"/"
	for _, url := range []string{
		in + strings.Repeat("a", 2000), // longer than the maximum key
		in + strings.Repeat("a", 2000) + "/" + ours,
		in + strings.Repeat("a", 300) + "/" + ours,
		"minio://other/" + ours, "minio://" + ours, ours, "",
		in + ours[:len(ours)-1] + "x",
	} {
		if err := complete(task, lease, url); bloom.KindOf(err) != bloom.KindInvalid {
			t.Errorf("%.80s: %v", url, err)
		}
	}
	// The outcome counts without an upload that does not exist.
	for _, store := range []string{in, "file:"} {
		task, lease := s.held()
		if err := complete(task, lease, store+own(lease)); err != nil {
			t.Errorf("missing in %s: %v", store, err)
		}
	}
}

func TestContentIsServedInPartsAndConditionally(t *testing.T) {
	t.Parallel()
	s := newObjectServer(t)
	const output = "0123456789"
	a := s.complete(output).Artifact
	etag := `"` + a.SHA256 + `"`
	for name, c := range map[string]struct {
		header, value string
		status        int
		body          string
	}{
		"whole":                     {"Accept", "*/*", 200, output},
		"a part":                    {"Range", "bytes=3-6", 206, "3456"},
		"the end":                   {"Range", "bytes=-4", 206, "6789"},
		"from a place on":           {"Range", "bytes=7-", 206, "789"},
		"beyond the end":            {"Range", "bytes=10-", 416, ""},
		"unchanged":                 {"If-None-Match", etag, 304, ""},
		"changed":                   {"If-None-Match", `"other"`, 200, output},
		"on a condition that fails": {"If-Match", `"other"`, 412, ""},
	} {
		res, body := s.get(a.ID, "", c.header, c.value)
		if res.StatusCode != c.status || c.status < 300 && body != c.body || c.status == 304 && res.Header.Get("ETag") != etag {
			t.Errorf("%s: %d %q", name, res.StatusCode, body)
		}
	}
	res, body := s.get(a.ID, "?redirect=1")
	if res.StatusCode != http.StatusTemporaryRedirect {
		t.Fatalf("redirect: %d %s", res.StatusCode, body)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, res.Header.Get("Location"), nil)
	must(t, err)
	if res, body := fetch(t, req); res.StatusCode != 200 || body != output || res.Header.Get("Content-Disposition") == "" {
		t.Errorf("behind the redirect: %d %q %v", res.StatusCode, body, res.Header)
	}
}

func TestAlteredOrMissingObjectsAreNotServed(t *testing.T) {
	t.Parallel()
	s := newOutageServer(t)
	a := s.complete("what was recorded").Artifact
	bucket, err := objects.Open(s.bucket)
	must(t, err)
	defer bucket.Close()
	key := strings.TrimPrefix(*a.URL, "minio://"+s.bucket.Bucket+"/")
	_, err = bucket.Upload(t.Context(), key, bytes.NewReader([]byte("what was altered.")), 17, "text/plain")
	must(t, err)
	if got, err := s.api.ArtifactBytes(t.Context(), a.ID); err == nil {
		t.Errorf("altered content was served: %q", got)
	}
	must(t, bucket.Remove(t.Context(), key))
	if res, body := s.get(a.ID, ""); res.StatusCode != 404 || !strings.Contains(body, `"code":"not_found"`) {
		t.Errorf("missing content: %d %s", res.StatusCode, body)
	}
	s.minio.Stop()
	if res, body := s.get(a.ID, ""); res.StatusCode != 503 || strings.Contains(body, s.minio.Endpoint) {
		t.Errorf("content of an unavailable storage: %d %s", res.StatusCode, body)
	}
}
