package cli_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom/internal/memory"
	"github.com/bloom-runtime/bloom/internal/miniotest"
)

// memoryCase is a setting of the memory and how a push or pull shows its effect.
type memoryCase struct {
	flag, variable, value string
	order                 string // "push" or "pull"
	before                func(*place)
	without, with         string // what is printed, or stored, without and with the setting
	look                  func(*place) string
}

func memoryCases() []memoryCase {
	const day = 24 * time.Hour
	in := func(beside, project, name string) func(*place) string {
		return func(p *place) string { return p.stored(beside, project, name) }
	}
	kept := func(p *place) string {
		found, _ := filepath.Glob(filepath.Join(p.dir, "backups", "pull-overwrite", "*"))
		return fmt.Sprint(len(found), " backups")
	}
	other := func(p *place) { p.led("other") }
	const manifest, lease = "sqlite/manifest.json", "leadership/lease.json"
	return []memoryCase{
		{"--project", "CLAUDE_PROJECT_ID", "unusual", "push", nil, "no such object", `"project": "unusual"`, in("", "unusual", manifest)},
		{"--db", "CLAUDE_MEM_DB", "{dir}/unusual.db", "push", nil, `"observations": 1`, `"observations": 2`, in("", project, manifest)},
		{"--node", "MEMBRIDGE_NODE_ID", "unusual-node", "push", nil, `"source_host": "here"`, `"source_host": "unusual-node"`, in("", project, manifest)},
		{"--minio-bucket", "MINIO_BUCKET", "{bucket}-2", "push", nil, "no such object", `"observations": 1`, in("-2", project, manifest)},
		{"--leadership-lease-seconds", "LEADERSHIP_LEASE_SECONDS", "777", "push", nil, `"lease_seconds": 3600`, `"lease_seconds": 777`, in("", project, lease)},
		{"--primary-node", "PRIMARY_NODE_ID", "somebody", "push", nil, `"primary_node_id": "here"`, `"primary_node_id": "somebody"`, in("", project, lease)},
		{"--leadership", "LEADERSHIP_ENABLED", "false", "push", other, "only other, the primary", "pushed", nil},
		{"--allow-secondary-push", "ALLOW_SECONDARY_PUSH", "true", "push", other, "only other, the primary", "pushed", nil},
		{"--allow-primary-pull-override", "ALLOW_PRIMARY_PULL_OVERRIDE", "true", "pull", func(p *place) { p.pushedBy("here") }, "would overwrite", "pulled", nil},
		{"--force-push", "FORCE_PUSH", "true", "push", func(p *place) { p.locked(time.Minute) }, "other has been pushing for", "pushed", nil},
		{"--lock-ttl-seconds", "LOCK_TTL_SECONDS", "10", "push", func(p *place) { p.locked(10 * time.Minute) }, "other has been pushing for", "pushed", nil},
		{"--stale-lock-grace-seconds", "STALE_LOCK_GRACE_SECONDS", "0", "push", func(p *place) { p.locked(2*time.Hour + 5*time.Second) }, "other has been pushing for", "pushed", nil},
		{"--pull-backup-max-count", "PULL_BACKUP_MAX_COUNT", "2", "pull", func(p *place) { p.pushedBy("other"); p.backups(0, 0, 0) }, "4 backups", "2 backups", kept},
		{"--pull-backup-max-days", "PULL_BACKUP_MAX_DAYS", "2", "pull", func(p *place) { p.pushedBy("other"); p.backups(3*day, day) }, "3 backups", "2 backups", kept},
	}
}

// prepare writes memories into the folder, and what the case requires into the bucket.
func (c memoryCase) prepare(p *place) {
	observe(p, filepath.Join(p.dir, "here.db"))
	observe(p, filepath.Join(p.dir, "unusual.db"))
	observe(p, filepath.Join(p.dir, "unusual.db"))
	if c.before != nil {
		c.before(p)
	}
}

// TestEveryVariableOfTheMemoryTakesEffect pushes or pulls once without and once with each variable.
func TestEveryVariableOfTheMemoryTakesEffect(t *testing.T) {
	t.Parallel()
	server := miniotest.Shared(t)
	for _, c := range memoryCases() {
		t.Run(c.variable, func(t *testing.T) {
			t.Parallel()
			for _, with := range []bool{false, true} {
				storage := server.Bucket()
				p := newPlace(t, t.TempDir(), storage)
				c.prepare(p)
				one := newPerson(t, nil)
				for key, value := range map[string]string{"MINIO_ENDPOINT": storage.Endpoint, "MINIO_ACCESS_KEY": storage.AccessKey,
					"MINIO_SECRET_KEY": storage.SecretKey, "MINIO_BUCKET": storage.Bucket, "CLAUDE_PROJECT_ID": project,
					"CLAUDE_MEM_DB": p.dir + "/here.db", "MEMBRIDGE_NODE_ID": "here"} {
					one.env[key] = value
				}
				want := c.without
				if with {
					want = c.with
					one.env[c.variable] = strings.NewReplacer("{dir}", p.dir, "{bucket}", storage.Bucket).Replace(c.value)
				}
				got := one.run("memory", c.order)
				said := got.out + got.err
				if c.look != nil {
					said = c.look(p)
				}
				if !strings.Contains(said, want) {
					t.Errorf("with it %t: %q, want %q; exit code %d: %s%s", with, said, want, got.code, got.out, got.err)
				}
			}
		})
	}
}

// TestEveryVariableOfTheStorageTakesEffect checks the requests that reach the storage.
func TestEveryVariableOfTheStorageTakesEffect(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var asked []string
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, r.URL.Path+" "+r.Header.Get("Authorization"))
		w.WriteHeader(http.StatusForbidden)
	}))
	t.Cleanup(web.Close)
	host, port, _ := strings.Cut(strings.TrimPrefix(web.URL, "http://"), ":")
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("of-a-file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(env ...string) string {
		mu.Lock()
		asked = nil
		mu.Unlock()
		p := newPerson(t, nil)
		for key, value := range map[string]string{"MINIO_ENDPOINT": web.URL, "MINIO_ACCESS_KEY": "somebody", "MINIO_SECRET_KEY": "a-secret", "CLAUDE_MEM_DB": "/nowhere/x.db"} {
			p.env[key] = value
		}
		for i := 0; i < len(env); i += 2 {
			p.env[env[i]] = env[i+1]
			if env[i+1] == "" {
				delete(p.env, env[i])
			}
		}
		got := p.run("memory", "push", "--project", "garden")
		mu.Lock()
		defer mu.Unlock()
		return strings.Join(asked, "\n") + got.err
	}
	plain := run()
	for _, c := range []struct {
		env  []string
		want string
	}{
		{[]string{"MINIO_ENDPOINT", host, "MINIO_PORT", port}, "Credential=somebody/"},
		{[]string{"MINIO_ENDPOINT", host + ":" + port}, "Credential=somebody/"},
		{[]string{"MINIO_REGION", "eu-unusual-7"}, "/eu-unusual-7/s3/"},
		{[]string{"MINIO_ACCESS_KEY", "unusual"}, "Credential=unusual/"},
		{[]string{"MINIO_BUCKET", "unusual-bucket"}, "/unusual-bucket/"},
		{[]string{"MINIO_USE_SSL", "true"}, "HTTP response to HTTPS client"},
		{[]string{"MINIO_SECRET_KEY", "", "MINIO_SECRET_KEY_FILE", secret}, "Signature="},
		{[]string{"MINIO_SECRET_KEY", ""}, "MINIO_SECRET_KEY"},
		{[]string{"MINIO_ENDPOINT", ""}, "MINIO_ENDPOINT"},
	} {
		if got := run(c.env...); !strings.Contains(got, c.want) || len(c.env) == 2 && c.env[0] != "MINIO_ENDPOINT" && strings.Contains(plain, c.want) {
			t.Errorf("%q: %s", c.env, got)
		}
	}
}

// ordered makes the stage's worker push or pull and returns its report.
func (s *stage) ordered(kind, project string) string {
	s.Helper()
	const agent = "mover"
	if s.role == "worker" {
		s.bridge.order(fmt.Sprintf(`{"id":"job-1","type":"sync_%s","project":%q,"canonical_id":%q}`, kind, project, memory.CanonicalID(project)))
		var detail string
		s.await("the report", func() bool {
			return s.bridge.count(func(r recorded) bool {
				reports, _ := r.body["reports"].([]any)
				if len(reports) > 0 {
					detail = fmt.Sprint(reports...)
				}
				return len(reports) > 0
			}) > 0
		})
		return detail
	}
	s.call("POST", s.bridgeURL()+"/projects", fmt.Sprintf(`{"name":%q}`, project), "Content-Type", "application/json")
	var job syncJob
	s.await("the worker", func() bool {
		status, text := s.call("POST", s.bridgeURL()+"/sync/"+kind, fmt.Sprintf(`{"project":%q,"agent":%q}`, project, agent), "Content-Type", "application/json")
		return status == http.StatusOK && json.Unmarshal([]byte(text), &job) == nil && job.Status == "queued"
	})
	id := job.JobID
	s.await("the job's end", func() bool {
		_, text := s.call("GET", s.bridgeURL()+"/jobs/"+id, "")
		return json.Unmarshal([]byte(text), &job) == nil && (job.Status == "completed" || job.Status == "failed")
	})
	return job.Detail
}

// memoryScenes check that a worker moves the memory as the commands do.
func memoryScenes() map[string]scene {
	all := map[string]scene{
		"a memory in step": {roles: workers, before: withMemory, also: append(memoryFlags(""), "--memory-allow-secondary-push"),
			sets: []set{{"--memory-sync", "1s", func(s *stage) { s.says("memory pushed") }}}},
		"the memory's object storage": {roles: []string{"worker"}, also: []string{"--memory-project=garden", "--memory-sync=1s", "--minio-secret-key=secret-of-somebody"}, sets: []set{
			{"--minio-endpoint", "{bridge}", asked("AWS4")},
			{"--minio-access-key", "an-unusual-access-key", asked("Credential=an-unusual-access-key/")},
			{"--minio-region", "eu-unusual-7", asked("/eu-unusual-7/s3/")},
		}},
		"the memory's port": {roles: []string{"worker"}, before: listenForPostgres,
			also: []string{"--memory-project=garden", "--memory-sync=1s", "--minio-access-key=somebody", "--minio-secret-key=of-somebody", "--minio-endpoint=127.0.0.1"}, sets: []set{
				{"--minio-port", "{port}", func(s *stage) {
					s.await("a connection", func() bool { return s.bridge.count(func(r recorded) bool { return r.path == "postgres" }) > 0 })
				}},
			}},
		"the memory's TLS": {roles: []string{"worker"},
			also: []string{"--memory-project=garden", "--memory-sync=1s", "--minio-access-key=somebody", "--minio-secret-key=of-somebody", "--minio-endpoint={bridge}"}, sets: []set{
				{"--minio-use-ssl", "", func(s *stage) { s.says("HTTP response to HTTPS client") }},
			}},
	}
	for flag, value := range map[string]string{"--minio-secret-key": "{minio-secret}", "--minio-secret-key-file": "{dir}/minio-key"} {
		all["the memory's "+flag] = scene{roles: []string{"worker"}, before: withMemory, also: append(memoryFlags("--minio-secret-key"), "--memory-sync=1s"),
			sets: []set{{flag, value, func(s *stage) { s.says("memory pushed") }}}}
	}
	for _, c := range memoryCases() {
		flag := "--memory-" + strings.TrimPrefix(c.flag, "--")
		var p *place
		all["memory "+c.variable] = scene{roles: workers, also: memoryFlags(flag),
			before: func(s *stage) { p = s.memoryPlace(); c.prepare(p) },
			sets: []set{{flag, c.value, func(s *stage) {
				owner := project
				if c.flag == "--project" {
					owner = c.value
				}
				got := s.ordered(c.order, owner)
				if c.look != nil {
					got = c.look(p)
				}
				if !strings.Contains(got, c.with) {
					s.Errorf("%q, want %q", got, c.with)
				}
			}}}}
	}
	return all
}
