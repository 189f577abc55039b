package e2e_test

import (
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/standin"
	"github.com/bloom-runtime/bloom/internal/storable"
)

// spanSink is an OpenTelemetry collector that stores what it receives.
type spanSink struct {
	mu    sync.Mutex
	spans []*trace.Span
	from  []string // service.name of each
	raw   []byte   // everything, as received
}

func (s *spanSink) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var got trace.TracesData
	if err != nil || r.URL.Path != "/v1/traces" || proto.Unmarshal(body, &got) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.raw = append(s.raw, body...)
	for _, resource := range got.ResourceSpans {
		service := ""
		for _, a := range resource.Resource.Attributes {
			if a.Key == "service.name" {
				service = a.Value.GetStringValue()
			}
		}
		for _, scope := range resource.ScopeSpans {
			for _, span := range scope.Spans {
				s.spans, s.from = append(s.spans, span), append(s.from, service)
			}
		}
	}
}

// of returns the spans of a trace, by service and name.
func (s *spanSink) of(traceID string) map[string]*trace.Span {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := map[string]*trace.Span{}
	for i, span := range s.spans {
		if hex.EncodeToString(span.TraceId) == traceID {
			found[s.from[i]+": "+span.Name] = span
		}
	}
	return found
}

// TestATaskIsOneTrace checks the trace from the task's creation to the model's call, which has the
// task's id.
func TestATaskIsOneTrace(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	sink := &spanSink{}
	otlp := httptest.NewServer(sink)
	t.Cleanup(otlp.Close)
	tracing := []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + otlp.URL, "OTEL_BSP_SCHEDULE_DELAY=50"}
	h.script("traced", func(r standin.Request) standin.Reply {
		if strings.Contains(r.Conversation(), "parent is 00-") {
			return standin.Reply{Text: "done"}
		}
		return standin.Tool("", "Bash", map[string]any{"command": `echo "parent is $TRACEPARENT"`, "description": "look"})
	})
	h.serveWith(tracing)
	h.work(workerOptions{name: "w1", env: append(h.modelEnv("ANTHROPIC_API_KEY=dummy"), tracing...), args: []string{"--allowed-tool", "Bash"}})
	const caller = "4bf92f3577b34da6a3ce929d0e0e4736"
	var task bloom.Task
	status, answer := h.raw(t, "POST", "/llm-tasks", string(storable.MustJSON(spec("traced"))), "Traceparent", "00-"+caller+"-00f067aa0ba902b7-01")
	if err := json.Unmarshal([]byte(answer), &task); status != 201 || err != nil {
		t.Fatalf("%d %s", status, answer)
	}
	if o := h.await(t, task.ID); o.task.Status != bloom.TaskCompleted {
		t.Fatalf("the task is %s; %s", o.task.Status, o.story())
	}
	id := strings.ReplaceAll(task.ID, "-", "")
	var spans map[string]*trace.Span
	eventually(t, "every span has come", func() bool { spans = sink.of(id); return len(spans) >= 4 })
	root := spans["bloom-server: create task"]
	if root == nil || len(root.ParentSpanId) != 0 || len(root.Links) != 1 || hex.EncodeToString(root.Links[0].TraceId) != caller {
		t.Fatalf("the first span is %v", root)
	}
	for _, name := range []string{"bloom-server: wait for a worker", "bloom-worker: run claude", "bloom-server: record the outcome"} {
		span := spans[name]
		if span == nil || !slices.Equal(span.ParentSpanId, root.SpanId) || span.EndTimeUnixNano < span.StartTimeUnixNano {
			t.Errorf("%s is %v", name, span)
		}
	}
	want := "parent is 00-" + id + "-" + hex.EncodeToString(spans["bloom-worker: run claude"].SpanId) + "-01"
	if asked := h.asked(want); len(asked) == 0 {
		t.Errorf("a command in the run did not find %q", want)
	}
	if strings.Contains(string(sink.raw), "scenario traced") {
		t.Error("a span holds the prompt")
	}
}
