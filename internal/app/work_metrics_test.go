package app_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/client"
	"github.com/bloom-runtime/bloom/internal/app"
)

// promised are the metrics for all that a server says about itself.
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

// TestMetricsTellOfTasks follows one task from its creation to its outcome, holds the
// metrics to the field's conventions, and checks that what the dashboard and the alert
// rules name exists.
func TestMetricsTellOfTasks(t *testing.T) {
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

	_, _, err = api.RegisterWorker(t.Context(), bloom.WorkerSpec{Name: "w", InstanceID: "i", Capabilities: bloom.Capabilities{ClaudeCLI: true, MaxConcurrency: 3}})
	must(t, err)
	_, err = api.Submit(t.Context(), bloom.TaskSpec{ContextID: "c", AgentSlug: "poet", Prompt: "p"})
	must(t, err)
	got, err := api.Claim(t.Context(), "w", client.Claim{InstanceID: "i", Max: 1, Wait: 10 * time.Second})
	must(t, err)
	output, tokens, cost := "four", int64(7), 0.25
	_, err = api.Complete(t.Context(), got.Leases[0].Task.ID, bloom.Completion{LeaseID: got.Leases[0].Lease.ID, Status: bloom.OutcomeSuccess, Output: &output,
		Metrics: bloom.Metrics{DurationMS: 2500, InputTokens: &tokens, CostUSD: &cost}})
	must(t, err)

	// Nobody has the labels that this one asks for.
	_, err = api.Submit(t.Context(), bloom.TaskSpec{ContextID: "d", AgentSlug: "poet", Prompt: "p", Labels: []string{"gpu", "eu"}})
	must(t, err)

	// Loops of the server read beside us: what is in use now settles between two scrapes.
	var now map[string]float64
	want := map[string]float64{
		`bloom_tasks_created_total`:                                                            2,
		`bloom_leases_granted_total`:                                                           1,
		`bloom_task_results_total{status="success"}`:                                           1,
		`bloom_task_results_total{status="error"}`:                                             0,
		`bloom_leases_expired_total{task="queued"}`:                                            0,
		`bloom_task_wait_seconds_count`:                                                        1,
		`bloom_task_run_seconds_sum{status="success"}`:                                         2.5,
		`bloom_task_tokens_total{agent="poet",direction="input"}`:                              7,
		`bloom_task_cost_dollars_total{agent="poet"}`:                                          0.25,
		`bloom_artifacts_created_bytes_total`:                                                  4,
		`bloom_tasks{status="completed"}`:                                                      1,
		`bloom_tasks{status="queued"}`:                                                         1,
		`bloom_queue_tasks{labels="eu,gpu"}`:                                                   1,
		`bloom_workers{status="online"}`:                                                       1,
		`bloom_worker_slots{state="free"}`:                                                     3,
		`bloom_lease_held_seconds_count`:                                                       1,
		`bloom_store_operations_waiting`:                                                       0,
		`bloom_store_connections{pool="read",state="used"}`:                                    0,
		`bloom_store_connections_max{pool="read"}`:                                             4,
		`bloom_leases_active`:                                                                  0,
		`bloom_store_up`:                                                                       1,
		`bloom_membridge_connected`:                                                            0,
		`bloom_build_info{version="test"}`:                                                     1,
		`bloom_http_requests_total{route="POST /api/runtime/llm-tasks",status="201"}`:          2,
		`bloom_http_request_duration_seconds_count{route="POST /api/runtime/llm-tasks"}`:       2,
		`bloom_http_requests_total{route="POST /api/runtime/workers/{id}/claim",status="200"}`: 1,
	}
	wrong := []string{"not scraped"}
	for end := time.Now().Add(10 * time.Second); len(wrong) > 0 && time.Now().Before(end); {
		now, wrong = figures(t, s.URL()), nil
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
	for _, file := range []string{"../../deploy/monitoring/alerts.yaml", "../../deploy/monitoring/dashboard.json"} {
		raw, err := os.ReadFile(file)
		must(t, err)
		for _, name := range regexp.MustCompile(`bloom_[a-z_]+[a-z]`).FindAllString(string(raw), -1) {
			if !strings.Contains(text, "# TYPE "+strings.TrimSuffix(strings.TrimSuffix(name, "_bucket"), "_count")+" ") && !strings.HasPrefix(name, "bloom_loop") && !strings.HasPrefix(name, "bloom_membridge_last") && !strings.HasPrefix(name, "bloom_certificate") {
				t.Errorf("%s names %s, which no server has", file, name)
			}
		}
	}
	stop()
	must(t, <-ended)
	must(t, s.Close())
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
