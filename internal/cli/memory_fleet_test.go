package cli_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bloom-runtime/bloom/internal/membridge"
	"github.com/bloom-runtime/bloom/internal/membridge/mbclient"
	"github.com/bloom-runtime/bloom/internal/memory"
	"github.com/bloom-runtime/bloom/internal/miniotest"
	"github.com/bloom-runtime/bloom/internal/objects"
)

// fleet is a control plane and object storage for the nodes of one project.
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

// ask expects a success and decodes the response.
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

// node is a machine with its own folder.
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

// background runs a command until the test ends and returns its output.
func (f *fleet) background(p *person, args ...string) *syncBuffer {
	f.t.Helper()
	said := &syncBuffer{}
	other := *p // it has its own signals
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

func (interrupt) Signal() {}

type syncJob struct {
	JobID      string  `json:"job_id"`
	Status     string  `json:"status"`
	Detail     string  `json:"detail"`
	Stdout     string  `json:"stdout"`
	Stderr     string  `json:"stderr"`
	ReturnCode *int    `json:"returncode"`
	FinishedAt float64 `json:"finished_at"`
}

// order makes an agent push or pull and returns the job.
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
