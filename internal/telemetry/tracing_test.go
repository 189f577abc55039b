package telemetry_test

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/attempt"
	"github.com/bloom-runtime/bloom/internal/telemetry"
)

// The collector is unavailable at first: what it was to get is sent again, with the configured headers.
func TestSpansReachACollectorThatWasUnavailable(t *testing.T) {
	var asked atomic.Int32
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		var got trace.TracesData
		body, err := io.ReadAll(r.Body)
		if err != nil || proto.Unmarshal(body, &got) != nil || len(got.ResourceSpans) != 1 {
			t.Errorf("got %d bytes, %v: %v", len(body), err, &got)
		}
		if r.URL.Path != "/otlp/v1/traces" || r.Header.Get("X-Key") != "a=b c" {
			t.Errorf("got %s with X-Key %q", r.URL.Path, r.Header.Get("X-Key"))
		}
	}))
	defer collector.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL+"/otlp/")
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "X-Key=a=b%20c,")
	tracing, err := telemetry.OpenTracing(t.Context(), "server", "dev", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	_, done := tracing.Run(t.Context(), bloom.Task{ID: "01890a5d-ac96-774b-bcce-b302099a8057"})
	done(attempt.Run{})
	if err := tracing.Close(t.Context()); err != nil || asked.Load() != 2 {
		t.Errorf("%d requests, %v", asked.Load(), err)
	}
}

func TestTracingNamesTheVariableThatIsWrong(t *testing.T) {
	for name, value := range map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "collector:4318", "OTEL_EXPORTER_OTLP_TIMEOUT": "10s", "OTEL_EXPORTER_OTLP_HEADERS": "key"} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318")
			t.Setenv(name, value)
			if _, err := telemetry.OpenTracing(t.Context(), "server", "dev", slog.Default()); err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("got %v", err)
			}
		})
	}
}
