package app_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/client"
	"github.com/bloom-runtime/bloom/internal/app"
)

// promised are the metrics that a server must have.
var promised = map[string][]string{
	"tasks by status": {"bloom_tasks"},
	"queue depth and age of the oldest by labels": {"bloom_queue_tasks", "bloom_queue_oldest_age_seconds"},
	"wait, run and lease durations":               {"bloom_task_wait_seconds", "bloom_task_run_seconds", "bloom_lease_held_seconds"},
	"expiries":                                    {"bloom_leases_expired_total"},
	"requeues":                                    {"bloom_tasks_requeued_total", "bloom_leases_released_total"},
	"workers by status and free slots":            {"bloom_workers", "bloom_worker_slots"},
	"events":                                      {"bloom_task_events_total"},
	"artifacts":                                   {"bloom_artifacts_created_total", "bloom_artifacts_created_bytes_total"},
	"audit export lag":                            {"bloom_audit_export_lag_seconds", "bloom_audit_chain_lag_seconds", "bloom_audit_export_entries_total"},
	"the membridge client's state":                {"bloom_membridge_connected", "bloom_membridge_consecutive_failures"},
	"HTTP by route":                               {"bloom_http_requests_total", "bloom_http_request_duration_seconds"},
	"what limits refused":                         {"bloom_requests_refused_total"},
	"sizes of the database's pool and groups":     {"bloom_store_connections", "bloom_store_connections_max", "bloom_store_transaction_operations", "bloom_store_transaction_seconds", "bloom_store_operations_waiting"},
	"the blob store":                              {"bloom_artifact_storage_up", "bloom_artifact_storage_ability", "bloom_artifact_storage_waiting_artifacts", "bloom_artifacts_moved_total"},
	"the Go runtime":                              {"go_goroutines", "go_memstats_heap_alloc_bytes", "go_gc_duration_seconds", "process_resident_memory_bytes", "process_open_fds"},
	"cost and tokens by agent":                    {"bloom_task_cost_dollars_total", "bloom_task_tokens_total"},
	"background loops":                            {"bloom_loop_errors_total"},
}

// TestMetricsCountTasks follows one task from its creation to its outcome, checks the metrics
// against Prometheus's conventions, and checks that what the dashboard and the alert rules use
// exists.
func TestMetricsCountTasks(t *testing.T) {
	t.Parallel()
	cfg := serverConfig(t)
	cfg.RuntimeAPIKey = key
	cfg.AuditExport.AuditExport = filepath.Join(t.TempDir(), "audit")
	s, err := app.OpenServer(t.Context(), cfg, build())
	must(t, err)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx, context.Background()) }()
	api, err := client.New(s.URL(), client.Options{APIKey: key})
	must(t, err)
	defer api.Close()

	_, err = api.RegisterWorker(t.Context(), bloom.WorkerSpec{Name: "w", InstanceID: "i", Capabilities: bloom.Capabilities{ClaudeCLI: true, MaxConcurrency: 3}})
	must(t, err)
	_, err = api.Submit(t.Context(), bloom.TaskSpec{ContextID: "c", AgentSlug: "poet", Prompt: "p"})
	must(t, err)
	got, err := api.Claim(t.Context(), "w", client.Claim{InstanceID: "i", Max: 1, Wait: 10 * time.Second})
	must(t, err)
	task, lease := got.Leases[0].Task.ID, got.Leases[0].Lease.ID
	_, err = api.PutFile(t.Context(), task, lease, client.File{Path: "poem"}, strings.NewReader("roses"), 5)
	must(t, err)
	output, tokens, cost := "four", int64(7), 0.25
	_, err = api.Complete(t.Context(), task, bloom.Completion{LeaseID: lease, Status: bloom.OutcomeSuccess, Output: &output,
		Metrics: bloom.Metrics{DurationMS: 2500, InputTokens: &tokens, CostUSD: &cost}})
	must(t, err)

	// No report of a worker makes a metric infinite.
	_, err = api.Submit(t.Context(), bloom.TaskSpec{ContextID: "e", AgentSlug: "liar", Prompt: "p"})
	must(t, err)
	got, err = api.Claim(t.Context(), "w", client.Claim{InstanceID: "i", Max: 1, Wait: 10 * time.Second})
	must(t, err)
	tokens, cost = 1<<53-1, math.MaxFloat64
	_, err = api.Complete(t.Context(), got.Leases[0].Task.ID, bloom.Completion{LeaseID: got.Leases[0].Lease.ID, Status: bloom.OutcomeSuccess, Output: &output,
		Metrics: bloom.Metrics{InputTokens: &tokens, CostUSD: &cost}})
	must(t, err)

	// No worker has the labels that this one requires.
	_, err = api.Submit(t.Context(), bloom.TaskSpec{ContextID: "d", AgentSlug: "poet", Prompt: "p", Labels: []string{"gpu", "eu"}})
	must(t, err)

	// The server's loops read at the same time: the connections in use settle between two scrapes.
	var now map[string]float64
	want := map[string]float64{
		`bloom_tasks_created_total`:                                                            3,
		`bloom_leases_granted_total`:                                                           2,
		`bloom_task_results_total{status="success"}`:                                           2,
		`bloom_task_results_total{status="error"}`:                                             0,
		`bloom_leases_expired_total{task="queued"}`:                                            0,
		`bloom_task_wait_seconds_count`:                                                        2,
		`bloom_task_run_seconds_sum{status="success"}`:                                         2.5,
		`bloom_task_tokens_total{agent="poet",direction="input"}`:                              7,
		`bloom_task_tokens_total{agent="liar",direction="input"}`:                              1e12,
		`bloom_task_cost_dollars_total{agent="liar"}`:                                          1e4,
		`bloom_task_cost_dollars_total{agent="poet"}`:                                          0.25,
		`bloom_artifacts_created_total`:                                                        3,
		`bloom_artifacts_created_bytes_total`:                                                  4 + 5 + 4,
		`bloom_tasks{status="completed"}`:                                                      2,
		`bloom_tasks{status="queued"}`:                                                         1,
		`bloom_queue_tasks{labels="eu,gpu"}`:                                                   1,
		`bloom_workers{status="online"}`:                                                       1,
		`bloom_worker_slots{state="free"}`:                                                     3,
		`bloom_lease_held_seconds_count`:                                                       2,
		`bloom_store_operations_waiting`:                                                       0,
		`bloom_store_connections{pool="read",state="used"}`:                                    0,
		`bloom_store_connections_max{pool="read"}`:                                             4,
		`bloom_leases_active`:                                                                  0,
		`bloom_store_up`:                                                                       1,
		`bloom_membridge_connected`:                                                            0,
		`bloom_build_info{version="test"}`:                                                     1,
		`bloom_http_requests_total{route="POST /api/runtime/llm-tasks",status="201"}`:          3,
		`bloom_http_request_duration_seconds_count{route="POST /api/runtime/llm-tasks"}`:       3,
		`bloom_http_requests_total{route="POST /api/runtime/workers/{id}/claim",status="200"}`: 2,
	}
	wrong := []string{"not scraped"}
	for end := time.Now().Add(time.Minute); len(wrong) > 0 && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		now = scrapeMetrics(t, s.URL())
		wrong = unanswered(t, now)
		for name, value := range want {
			if v, there := now[name]; !there || v != value {
				wrong = append(wrong, fmt.Sprintf("%s is %v (there: %v), want %v", name, v, there, value))
			}
		}
	}
	if len(wrong) > 0 {
		t.Error(strings.Join(wrong, "\n"))
	}
	for _, name := range []string{"bloom_store_transaction_operations_count", "bloom_store_transaction_seconds_count"} {
		if now[name] < 4 {
			t.Errorf("%s is %v after four operations", name, now[name])
		}
	}
	if age, there := now[`bloom_queue_oldest_age_seconds{labels="eu,gpu"}`]; !there || age < 0 || age > 600 {
		t.Errorf("the oldest task waits for %v s (there: %v)", age, there)
	}
	text := scraped(t, s.URL())
	for what, names := range promised {
		for _, name := range names {
			if !strings.Contains(text, "# TYPE "+name+" ") {
				t.Errorf("%s: %s is not there", what, name)
			}
		}
	}
	problems, err := promlint.New(strings.NewReader(text)).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("against the conventions: %v, %v", problems, err)
	}
	documented(t, text)
	stop()
	must(t, <-ended)
	must(t, s.Close())
}

// sometimes are metrics that this server does not have, with the condition for each.
var sometimes = map[string]string{
	"bloom_artifact_storage_seconds":                 "after it was used",
	"bloom_certificate_expires_timestamp_seconds":    "with a certificate",
	"bloom_membridge_last_success_timestamp_seconds": "after membridge has answered",
}

// unanswered returns what the dashboard and the alert rules use and the server does not have:
// metrics, and values of their labels.
func unanswered(t *testing.T, now map[string]float64) (missing []string) {
	t.Helper()
	selector := regexp.MustCompile(`\b(?:bloom|process|go)_[a-z_]+[a-z](\{[^}]*\})?`)
	for _, expr := range expressions(t) {
		for _, want := range selector.FindAllString(expr, -1) {
			name, labels, _ := strings.Cut(strings.TrimSuffix(want, "}"), "{")
			if sometimes[name] == "" && !slices.ContainsFunc(slices.Collect(maps.Keys(now)), func(series string) bool { return matches(series, name, labels) }) {
				missing = append(missing, fmt.Sprintf("nothing answers %s in %s", want, expr))
			}
		}
	}
	return missing
}

// expressions returns the queries of the dashboard and of the alert rules.
func expressions(t *testing.T) (all []string) {
	t.Helper()
	for file, line := range map[string]string{"alerts.yaml": `(?m)^ +expr: (.*)$`, "dashboard.json": `"expr": ("(?:[^"\\]|\\.)*")`} {
		raw, err := os.ReadFile("../../deploy/monitoring/" + file)
		must(t, err)
		found := regexp.MustCompile(line).FindAllStringSubmatch(string(raw), -1)
		if len(found) < 10 {
			t.Fatalf("%s has %d expressions", file, len(found))
		}
		for _, m := range found {
			expr := m[1]
			if strings.HasPrefix(expr, `"`) {
				must(t, json.Unmarshal([]byte(expr), &expr))
			}
			all = append(all, expr)
		}
	}
	return all
}

// matches reports whether a series has the name, and for each label of a query one of the values.
// It ignores job and instance, which Prometheus adds, the kind of this server's storage, and
// outcomes of failures, which this server did not have.
func matches(series, name, labels string) bool {
	own, has, _ := strings.Cut(series, "{")
	if own != name {
		return false
	}
	for _, m := range regexp.MustCompile(`([a-z]+)(=~?)"([^"]*)"`).FindAllStringSubmatch(labels, -1) {
		if label := m[1]; label == "job" || label == "instance" || label == "kind" || m[3] == "5.." {
			continue
		}
		if !regexp.MustCompile(`\b` + m[1] + `="(` + either(m[2], m[3]) + `)"`).MatchString(has) {
			return false
		}
	}
	return true
}

// either returns the pattern of a label's value.
func either(operator, value string) string {
	if operator == "=" {
		return regexp.QuoteMeta(value)
	}
	return value
}

// documented compares the tables of metrics in the manual with what a server has.
func documented(t *testing.T, text string) {
	t.Helper()
	manual, has := "", map[string]bool{}
	for _, page := range []string{"guides/monitoring.md", "guides/object-storage.md"} {
		raw, err := os.ReadFile("../../docs/" + page)
		must(t, err)
		manual += string(raw)
	}
	for _, m := range regexp.MustCompile(`# TYPE (bloom_\S+) `).FindAllStringSubmatch(text, -1) {
		if has[m[1]] = true; !strings.Contains(manual, "`"+m[1]) {
			t.Errorf("no page of the manual has %s", m[1])
		}
	}
	for _, m := range regexp.MustCompile("`(bloom_[a-z_]+)[`{]").FindAllStringSubmatch(manual, -1) {
		if !has[m[1]] && sometimes[m[1]] == "" {
			t.Errorf("the manual has %s, and no server does", m[1])
		}
	}
}

func scraped(t *testing.T, url string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/metrics", nil)
	must(t, err)
	req.Header.Set("Authorization", "Bearer "+key)
	req.Close = true
	res, err := http.DefaultClient.Do(req)
	must(t, err)
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	must(t, err)
	return string(raw)
}
