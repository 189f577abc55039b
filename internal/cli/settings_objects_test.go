package cli_test

import (
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"
	"strings"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/miniotest"
	"github.com/bloom-runtime/bloom/internal/objects"
)

// asked checks that the object storage, which the stage's membridge replaces, gets a request with
// part in the credential or the path.
func asked(part string) func(*stage) {
	return func(s *stage) {
		s.await("a request for "+part, func() bool {
			return s.bridge.count(func(r recorded) bool {
				signed := r.header.Get("Authorization")
				return strings.HasPrefix(signed, "AWS4") && (strings.Contains(signed, part) || strings.HasPrefix(r.path, part))
			}) > 0
		})
	}
}

// stores checks that a task's output is stored in the object storage.
func stores(bucket string) func(*stage) {
	return func(s *stage) {
		task := s.heldTask()
		s.wants(200, "POST", s.url()+"/api/runtime/llm-tasks/"+task+"/complete", `{"status":"success","output":"kept"}`)
		if _, text := s.call("GET", s.url()+"/api/runtime/artifacts?task_id="+task, ""); !strings.Contains(text, `"url":"minio://`+bucket+`/installations/`) {
			s.Error(text)
		}
	}
}

// withMinIO starts a real object storage for {minio}.
func withMinIO(s *stage) { withStorage(s, miniotest.Start(s).Bucket()) }

// withStorage gives the stage's flags a bucket.
func withStorage(s *stage, c objects.Config) {
	s.file("minio-key", c.SecretKey)
	s.values = strings.NewReplacer(append(s.pairs, "{minio}", c.Endpoint, "{minio-key}", c.AccessKey, "{minio-secret}", c.SecretKey, "{bucket}", c.Bucket)...)
}

func objectScenes() map[string]scene {
	keys := []string{"--minio-access-key=somebody", "--minio-secret-key=secret-of-somebody"}
	minio := []string{"--minio-endpoint={minio}", "--minio-access-key={minio-key}"}
	return map[string]scene{
		"object storage": {roles: servers, also: []string{"--minio-secret-key=secret-of-somebody"}, sets: []set{
			{"--minio-endpoint", "{bridge}", asked("AWS4")},
			{"--minio-access-key", "an-unusual-access-key", asked("Credential=an-unusual-access-key/")},
			{"--minio-region", "eu-unusual-7", asked("/eu-unusual-7/s3/")},
			{"--minio-artifact-bucket", "unusual-bucket", asked("/unusual-bucket/")},
		}},
		"object storage's port": {roles: servers, also: append(keys, "--minio-endpoint=127.0.0.1"), before: listenForPostgres, sets: []set{
			{"--minio-port", "{port}", func(s *stage) {
				s.await("a connection", func() bool { return s.bridge.count(func(r recorded) bool { return r.path == "postgres" }) > 0 })
			}},
		}},
		"object storage's TLS": {roles: servers, also: append(keys, "--minio-endpoint={bridge}"), sets: []set{
			{"--minio-use-ssl", "", func(s *stage) { s.says("HTTP response to HTTPS client") }},
		}},
		"object storage's secret":         {roles: servers, also: minio, before: withMinIO, sets: []set{{"--minio-secret-key", "{minio-secret}", stores("bloom-artifacts")}}},
		"object storage's secret in file": {roles: servers, also: minio, before: withMinIO, sets: []set{{"--minio-secret-key-file", "{dir}/minio-key", stores("bloom-artifacts")}}},
		"audit's export": {roles: servers, before: plantOldTasks, sets: []set{{"--audit-export", "{dir}/unusual-audit", func(s *stage) {
			s.await("a file of the audit", func() bool {
				found, _ := filepath.Glob(filepath.Join(s.dir, "unusual-audit/audit/*/*/*/*.jsonl.gz"))
				return len(found) > 0
			})
		}}}},
		"the largest attachments": {roles: servers, sets: []set{{"--attachment-limit-mib", "3", func(s *stage) {
			s.await("the limit in health", func() bool {
				_, text := s.call("GET", s.url()+"/health", "")
				return strings.Contains(text, `"max_attachments":3145728`)
			})
		}}}},
		"the largest file": {roles: servers, sets: []set{{"--artifact-limit-mib", "1", func(s *stage) {
			put := func(size int) (int, string) {
				content := strings.Repeat("x", size)
				sum := sha256.Sum256([]byte(content))
				task := s.heldTask()
				leases, _, err := s.api().Leases(s.Context(), bloom.LeaseQuery{Status: bloom.LeaseActive})
				if err != nil || len(leases) == 0 {
					s.Fatal(leases, err)
				}
				return s.call("PUT", s.url()+"/api/runtime/llm-tasks/"+task+"/artifacts?path=a&lease_id="+leases[0].ID+"&sha256="+hex.EncodeToString(sum[:]), content)
			}
			for size, want := range map[int]int{1 << 20: 200, 1<<20 + 1: 413} {
				if status, text := put(size); status != want {
					s.Errorf("a file of %d bytes: %d %s", size, status, text)
				}
			}
		}}}},
		"object storage's URL": {roles: servers, before: withMinIO, sets: []set{
			{"--blob-url", "s3://{minio-key}:{minio-secret}@{minio}/unusual-bucket?tls=false", stores("unusual-bucket")},
		}},
	}
}
