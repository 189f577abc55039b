package telemetry_test

import (
	"errors"
	"io"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/bloom-runtime/bloom/internal/store/contract"
	"github.com/bloom-runtime/bloom/internal/telemetry"
)

type stopped time.Time

func (s stopped) Now() time.Time { return time.Time(s) }

// scrape returns the current metrics.
func scrape(t *testing.T, m *telemetry.Metrics) string {
	t.Helper()
	w := httptest.NewRecorder()
	m.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/metrics", nil))
	body, err := io.ReadAll(w.Result().Body)
	if err != nil || w.Code != 200 {
		t.Fatalf("status %d, %v: %s", w.Code, err, body)
	}
	return string(body)
}

func TestMetricsCountWhatHappened(t *testing.T) {
	t.Parallel()
	m := telemetry.NewMetrics(stopped(time.UnixMilli(1_795_000_000_500)))
	observe := m.Loop("retention")
	m.Loop("reaper")
	before := scrape(t, m)
	for _, want := range []string{
		`bloom_retention_removed_total{kind="task"} 0`, `bloom_retention_contents_total{outcome="failed"} 0`, `bloom_loop_errors_total{loop="retention"} 0`,
		"\ngo_goroutines ", "\nprocess_start_time_seconds ",
	} {
		if !strings.Contains(before, want) {
			t.Errorf("a server that has just begun does not have %q", want)
		}
	}
	if strings.Contains(before, "bloom_loop_last_success_timestamp_seconds") {
		t.Error("a run was finished before there was one")
	}
	m.Removed(contract.Removed{Tasks: 1, Leases: 2, Results: 3, Artifacts: 4, Events: 5, Audit: 6, Contents: 7})
	m.Removed(contract.Removed{Tasks: 10})
	m.ContentDeleted(nil)
	m.ContentDeleted(nil)
	m.ContentDeleted(errors.New("not today"))
	observe(errors.New("the database is unavailable"))
	observe(nil)
	after := scrape(t, m)
	for _, want := range []string{
		`bloom_retention_removed_total{kind="task"} 11`, `bloom_retention_removed_total{kind="lease"} 2`,
		`bloom_retention_removed_total{kind="result"} 3`, `bloom_retention_removed_total{kind="artifact"} 4`,
		`bloom_retention_removed_total{kind="event"} 5`, `bloom_retention_removed_total{kind="audit"} 6`,
		`bloom_retention_contents_total{outcome="deleted"} 2`, `bloom_retention_contents_total{outcome="failed"} 1`,
		`bloom_loop_errors_total{loop="retention"} 1`, `bloom_loop_errors_total{loop="reaper"} 0`,
		`bloom_loop_last_success_timestamp_seconds{loop="retention"} 1.7950000005e+09`,
	} {
		if !strings.Contains(after, want+"\n") {
			t.Errorf("%q is not among the metrics", want)
		}
	}
	problems, err := promlint.New(strings.NewReader(after)).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("against the habits of the field: %v, %v", problems, err)
	}
}
