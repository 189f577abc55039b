package cli_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bloom-runtime/bloom/internal/membridge"
	"github.com/bloom-runtime/bloom/internal/membridge/mbclient"
	"github.com/bloom-runtime/bloom/internal/memory"
	"github.com/bloom-runtime/bloom/internal/miniotest"
	"github.com/bloom-runtime/bloom/internal/objects"
)

// fleet is a control plane and an object storage, for nodes of one project.
type fleet struct {
	t       *testing.T
	url     string
	admin   *mbclient.Client
	storage objects.Config
}

const project = "garden"

func newFleet(t *testing.T) *fleet {
	t.Helper()
	s, err := membridge.Open(t.Context(), membridge.Config{DatabasePath: filepath.Join(t.TempDir(), "m.db"),
		AdminKey: "the-admin-key-of-a-test", AgentKey: "the-agent-key-of-a-test", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(s.Handler())
	t.Cleanup(func() { s.Quiesce(); web.Close(); s.Close() })
	admin, err := mbclient.New(mbclient.Options{URL: web.URL, Key: "the-admin-key-of-a-test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(admin.Close)
	f := &fleet{t: t, url: web.URL, admin: admin, storage: miniotest.Shared(t).Bucket()}
	f.ask(http.MethodPost, "/projects", fmt.Sprintf(`{"name":%q}`, project), nil)
	return f
}

// ask wants a success and reads the answer.
func (f *fleet) ask(method, path, body string, into any) {
	f.t.Helper()
	status, answer, err := f.admin.Do(f.t.Context(), method, path, []byte(body))
	if err != nil || status > 299 {
		f.t.Fatalf("%s %s: %d %s %v", method, path, status, answer, err)
	}
	if into != nil {
		decodeInto(f.t, answer, into)
	}
}

// node is a machine with a folder of its own.
func (f *fleet) node(name string) *person {
	p := newPerson(f.t, nil)
	for key, value := range map[string]string{
		"MINIO_ENDPOINT": "http://" + f.storage.Endpoint, "MINIO_BUCKET": f.storage.Bucket, "MINIO_ACCESS_KEY": f.storage.AccessKey,
		"MINIO_SECRET_KEY": f.storage.SecretKey, "CLAUDE_PROJECT_ID": project, "MEMBRIDGE_NODE_ID": name,
		"CLAUDE_MEM_DB": filepath.Join(f.t.TempDir(), "claude-mem.db"), "BLOOM_DATA_DIR": f.t.TempDir(),
		"MEMBRIDGE_SERVER_URL": f.url, "MEMBRIDGE_AGENT_KEY": "the-agent-key-of-a-test", "BLOOM_MEMBRIDGE_INTERVAL": "1s",
	} {
		p.env[key] = value
	}
	return p
}

// background runs a command until the test ends and returns what it says.
func (f *fleet) background(p *person, args ...string) *syncBuffer {
	f.t.Helper()
	said := &syncBuffer{}
	other := *p // its signals are its own
	other.signals = newPerson(f.t, nil).signals
	other.stderr = func(b []byte) { said.Write(b) }
	ended := make(chan outcome, 1)
	go func() { ended <- other.run(args...) }()
	f.t.Cleanup(func() {
		other.signals <- interrupt{}
		if got := <-ended; got.code != 0 && got.code != 130 {
			f.t.Errorf("bloom %s: exit code %d: %s", strings.Join(args, " "), got.code, got.err)
		}
		if f.t.Failed() {
			f.t.Logf("%s said:\n%s", p.env["MEMBRIDGE_NODE_ID"], said)
		}
	})
	return said
}

type interrupt struct{}

func (interrupt) String() string { return "interrupt" }
func (interrupt) Signal()        {}

type syncJob struct {
	JobID      string  `json:"job_id"`
	Status     string  `json:"status"`
	Detail     string  `json:"detail"`
	Stdout     string  `json:"stdout"`
	Stderr     string  `json:"stderr"`
	ReturnCode *int    `json:"returncode"`
	FinishedAt float64 `json:"finished_at"`
}

// order has an agent push or pull and returns how that went.
func (f *fleet) order(kind, agent, project string) (job syncJob) {
	f.t.Helper()
	f.await("the agent "+agent, func() bool {
		status, answer, err := f.admin.Do(f.t.Context(), http.MethodPost, "/sync/"+kind, fmt.Appendf(nil, `{"project":%q,"agent":%q}`, project, agent))
		if err != nil || status != http.StatusOK {
			return false
		}
		decodeInto(f.t, answer, &job)
		return true
	})
	id := job.JobID
	f.await("the job's end", func() bool {
		f.ask(http.MethodGet, "/jobs/"+id, "", &job)
		return job.Status == "completed" || job.Status == "failed"
	})
	return job
}

func decodeInto(t *testing.T, raw []byte, into any) {
	t.Helper()
	if err := json.Unmarshal(raw, into); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
}

func (f *fleet) await(what string, ok func() bool) {
	f.t.Helper()
	if !within(stageLimit, ok) {
		f.t.Fatalf("waited in vain for %s", what)
	}
}

type nodeState struct {
	NodeID   string `json:"node_id"`
	Role     string `json:"role"`
	ObsCount *int64 `json:"obs_count"`
	DBSHA    string `json:"db_sha"`
}

func (f *fleet) nodes() map[string]nodeState {
	f.t.Helper()
	var list []nodeState
	f.ask(http.MethodGet, "/projects/"+memory.CanonicalID(project)+"/nodes", "", &list)
	byName := map[string]nodeState{}
	for _, n := range list {
		byName[n.NodeID] = n
	}
	return byName
}

func (f *fleet) promote(node string) {
	f.t.Helper()
	f.ask(http.MethodPost, "/projects/"+memory.CanonicalID(project)+"/leadership/select", fmt.Sprintf(`{"primary_node_id":%q}`, node), nil)
}

func TestMembridgeHasAgentsPushAndPull(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	one, two := f.node("one"), f.node("two")
	observe(t, one.env["CLAUDE_MEM_DB"])
	f.background(one, "memory", "agent")
	f.background(two, "memory", "agent")
	job := f.order("push", "one", project)
	if job.Status != "completed" || job.ReturnCode == nil || *job.ReturnCode != 0 || !strings.Contains(job.Stdout, "1 observations") || !strings.Contains(job.Stderr, "uploading") {
		t.Fatalf("push: %+v", job)
	}
	if job := f.order("pull", "two", project); job.Status != "completed" || !strings.Contains(job.Detail, "pushed by one") {
		t.Fatalf("pull: %+v", job)
	}
	observe(t, two.env["CLAUDE_MEM_DB"])
	if job := f.order("push", "two", project); job.Status != "failed" || job.ReturnCode == nil || *job.ReturnCode != 3 || !strings.Contains(job.Detail, "only one, the primary") {
		t.Fatalf("a secondary's push: %+v", job)
	}
	f.ask(http.MethodPost, "/projects", `{"name":"orchard"}`, nil)
	if job := f.order("push", "one", "orchard"); job.Status != "failed" || !strings.Contains(job.Detail, "CLAUDE_PROJECT_ID=orchard") {
		t.Fatalf("another project's push: %+v", job)
	}
	f.await("what the nodes have", func() bool {
		n := f.nodes()
		return n["one"].ObsCount != nil && *n["one"].ObsCount == 1 && n["two"].ObsCount != nil && *n["two"].ObsCount == 2 &&
			len(n["one"].DBSHA) == 64 && n["one"].DBSHA != n["two"].DBSHA
	})
}

func TestAPromotionInMembridgeReachesPushAndPull(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	one, two := f.node("one"), f.node("two")
	observe(t, one.env["CLAUDE_MEM_DB"])
	wantRun(t, one.run("memory", "push"), 0, "pushed")
	wantRun(t, two.run("memory", "pull"), 0, "pulled")
	f.background(one, "memory", "agent")
	f.background(two, "memory", "agent")
	f.await("the nodes", func() bool { return len(f.nodes()) == 2 })
	f.promote("two")
	f.await("the lease", func() bool {
		got := one.run("memory", "leadership")
		return strings.Contains(got.out, "two is primary, epoch 2")
	})
	observe(t, one.env["CLAUDE_MEM_DB"])
	wantRun(t, one.run("memory", "push"), 3, "only two, the primary")
	observe(t, two.env["CLAUDE_MEM_DB"])
	wantRun(t, two.run("memory", "push"), 0, "2 observations")
	wantRun(t, one.run("memory", "leadership", "--select", "one"), 1, "Membridge has selected two as primary until")
	wantRun(t, two.run("memory", "doctor"), 0, "two is primary (epoch 2)")
	if n := f.nodes(); n["two"].Role != "primary" || n["one"].Role != "secondary" {
		t.Fatalf("the nodes are %+v", n)
	}
}

func TestNodesKeepTheirMemoryInStep(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	one, two := f.node("one"), f.node("two")
	for _, p := range []*person{one, two} {
		p.env["BLOOM_MEMORY_SYNC"] = "1s"
	}
	observe(t, one.env["CLAUDE_MEM_DB"])
	first := f.background(one, "memory", "agent")
	second := f.background(two, "memory", "agent")
	has := func(p *person, n int) {
		t.Helper()
		f.await(fmt.Sprintf("%d observations on %s", n, p.env["MEMBRIDGE_NODE_ID"]), func() bool { return observations(t, p.env["CLAUDE_MEM_DB"]) == n })
	}
	has(two, 1)
	observe(t, one.env["CLAUDE_MEM_DB"])
	has(two, 2)
	f.promote("two")
	f.await("the new primary", func() bool {
		return strings.Contains(second.String(), "membridge selected the primary") || strings.Contains(first.String(), "membridge selected the primary")
	})
	observe(t, two.env["CLAUDE_MEM_DB"])
	has(one, 3)
	if n := strings.Count(first.String(), "memory pushed"); n != 2 {
		t.Errorf("the first primary says %d times that it pushed", n)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second) // some rounds in which nothing changes
	defer cancel()
	<-ctx.Done()
	if n := strings.Count(second.String(), "memory pushed"); n != 1 {
		t.Errorf("the second primary says %d times that it pushed", n)
	}
	if n := strings.Count(second.String(), "memory pulled"); n != 2 {
		t.Errorf("the first secondary says %d times that it pulled", n)
	}
}
