package app_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/app"
	"github.com/bloom-runtime/bloom/internal/config"
	"github.com/bloom-runtime/bloom/internal/store/contract"
	"github.com/bloom-runtime/bloom/internal/store/sqlite"
)

// ago is a clock that is slow.
type ago time.Duration

func (a ago) Now() time.Time { return time.Now().Add(-time.Duration(a)) }

// longEnded leaves tasks in the data directory that ended two hours ago, each with a file in the
// artifact store.
func longEnded(t *testing.T, dir string, n int) (contents []string) {
	t.Helper()
	s, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(dir, app.DatabaseFile), Clock: ago(2 * time.Hour), Logger: slog.New(slog.DiscardHandler)})
	must(t, err)
	defer s.Close()
	_, _, err = s.RegisterWorker(t.Context(), bloom.WorkerSpec{Name: "w", Status: bloom.WorkerOnline, Capabilities: bloom.Capabilities{ClaudeCLI: true, MaxConcurrency: 1}}, "test")
	must(t, err)
	for range n {
		id := uuid.Must(uuid.NewV7()).String()
		_, _, err := s.CreateTask(t.Context(), contract.NewTask{ID: id, BodyHash: "h", Spec: bloom.TaskSpec{
			ContextID: "c", AgentSlug: "a", Prompt: "p", MaxAttempts: 3, DesiredFormat: "text", Policy: bloom.Policy{TimeoutSec: 120},
		}})
		must(t, err)
		l, _, err := s.LeaseTask(t.Context(), contract.LeaseRequest{TaskID: id, TTLSec: 60})
		must(t, err)
		key := "artifacts/" + id + "/content"
		path := filepath.Join(app.ArtifactsDir(dir), key)
		must(t, os.MkdirAll(filepath.Dir(path), 0o700))
		must(t, os.WriteFile(path, []byte("text"), 0o600))
		url := "file:" + key
		_, err = s.Complete(t.Context(), contract.CompleteRequest{
			TaskID: id, ArtifactID: uuid.Must(uuid.NewV7()).String(), ResultID: uuid.Must(uuid.NewV7()).String(), BodyHash: "h",
			URL: &url, Size: 4, SHA256: strings.Repeat("0", 64), MediaType: "text/plain", Actor: "w",
			Completion: bloom.Completion{LeaseID: l.ID, Status: bloom.OutcomeSuccess, ArtifactType: bloom.DefaultArtifactType},
		})
		must(t, err)
		contents = append(contents, path)
	}
	return contents
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// scrapeMetrics scrapes a server's /metrics and returns the values by name and labels.
func scrapeMetrics(t *testing.T, url string) map[string]float64 {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/metrics", nil)
	must(t, err)
	req.Header.Set("Authorization", "Bearer "+key)
	req.Close = true
	res, err := http.DefaultClient.Do(req)
	must(t, err)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK || !strings.HasPrefix(res.Header.Get("Content-Type"), "text/plain") {
		t.Fatalf("/metrics: %s, %q, %v", res.Status, res.Header.Get("Content-Type"), err)
	}
	all := map[string]float64{}
	for line := range strings.Lines(string(body)) {
		line = strings.TrimSpace(line)
		at := max(0, strings.LastIndexByte(line, ' '))
		name, value := line[:at], strings.TrimSpace(line[at:])
		if v, err := strconv.ParseFloat(value, 64); err == nil {
			all[name] = v
		}
	}
	return all
}

func TestMetricsCountWhatRetentionRemoved(t *testing.T) {
	t.Parallel()
	cfg := serverConfig(t)
	cfg.RuntimeAPIKey = key
	cfg.RetentionTasks, cfg.RetentionAudit = config.Age(time.Hour), config.Age(time.Hour)
	contents := longEnded(t, cfg.DataDir, 3)
	// One that cannot be deleted.
	must(t, os.Remove(contents[0]))
	must(t, os.MkdirAll(filepath.Join(contents[0], "full"), 0o700))
	began := time.Now()
	s, err := app.OpenServer(t.Context(), cfg, build())
	must(t, err)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx, context.Background()) }()
	const finished = `bloom_loop_last_success_timestamp_seconds{loop="retention"}`
	var got map[string]float64
	for deadline := time.Now().Add(time.Minute); ; {
		if got = scrapeMetrics(t, s.URL()); got[finished] > 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("no run was ever finished: %v", got)
		}
		time.Sleep(10 * time.Millisecond)
	}
	got = scrapeMetrics(t, s.URL()) // the others may have been read before the run was finished
	for name, want := range map[string]float64{
		`bloom_retention_removed_total{kind="task"}`:        3,
		`bloom_retention_removed_total{kind="result"}`:      3,
		`bloom_retention_removed_total{kind="artifact"}`:    3,
		`bloom_retention_removed_total{kind="lease"}`:       3,
		`bloom_retention_contents_total{outcome="deleted"}`: 2,
		`bloom_retention_contents_total{outcome="failed"}`:  1,
		`bloom_loop_errors_total{loop="retention"}`:         0,
		`bloom_loop_errors_total{loop="reaper"}`:            0,
	} {
		if v, there := got[name]; !there || v != want {
			t.Errorf("%s is %v (present: %v), want %v", name, v, there, want)
		}
	}
	for _, name := range []string{`bloom_retention_removed_total{kind="event"}`, `bloom_retention_removed_total{kind="audit"}`} {
		if got[name] == 0 {
			t.Errorf("%s is 0", name)
		}
	}
	if at := time.UnixMilli(int64(got[finished] * 1000)); at.Before(began.Truncate(time.Millisecond)) || at.After(time.Now()) {
		t.Errorf("the run was finished at %s", at)
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("it ended with %v", err)
	}
	must(t, s.Close())
}
