package telemetry

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/attempt"
)

// Tracing exports spans to an OpenTelemetry collector. A trace has the id of its task, so the
// server need not pass anything to the worker: both derive the same trace and parent. A nil Tracing
// exports nothing. It is safe for concurrent use.
type Tracing struct {
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
}

// OpenTracing starts to export spans if OTEL_EXPORTER_OTLP_ENDPOINT or
// OTEL_EXPORTER_OTLP_TRACES_ENDPOINT is set; otherwise it returns nil. A collector that does not answer delays nothing.
func OpenTracing(ctx context.Context, role, version string, log *slog.Logger) (*Tracing, error) {
	if os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT")+os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") == "" || os.Getenv("OTEL_SDK_DISABLED") == "true" {
		return nil, nil //nolint:nilnil // tracing is off
	}
	client, err := newOTLPClient()
	if err != nil {
		return nil, err
	}
	exporter, err := otlptrace.New(ctx, client)
	if err != nil {
		return nil, fmt.Errorf("OpenTelemetry: %w", err)
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Warn("could not export spans", "error", err) }))
	t := &Tracing{provider: sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithIDGenerator(taskIDs{}),
		sdktrace.WithResource(resource.NewSchemaless(
			attribute.String("service.name", cmp.Or(os.Getenv("OTEL_SERVICE_NAME"), "bloom-"+role)), attribute.String("service.version", version))))}
	t.tracer = t.provider.Tracer("github.com/bloom-runtime/bloom")
	return t, nil
}

// Close exports remaining spans and waits for the collector until ctx ends.
func (t *Tracing) Close(ctx context.Context) error {
	if t == nil {
		return nil
	}
	return t.provider.Shutdown(ctx)
}

// Handler records the trace that a request belongs to, for the task that it creates.
func (t *Tracing) Handler(h http.Handler) http.Handler {
	if t == nil {
		return h
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Traceparent") != "" {
			r = r.WithContext(propagation.TraceContext{}.Extract(r.Context(), propagation.HeaderCarrier(r.Header)))
		}
		h.ServeHTTP(w, r)
	})
}

// Run starts the span of an attempt at a task. parent, to be passed on to the command, has the form
// of the header traceparent; it is empty when nothing is traced. done ends the span.
func (t *Tracing) Run(ctx context.Context, task bloom.Task) (parent string, done func(attempt.Run)) {
	if t == nil {
		return "", func(attempt.Run) {}
	}
	_, span := t.tracer.Start(inTask(ctx, task.ID), "run claude", trace.WithSpanKind(trace.SpanKindConsumer),
		trace.WithAttributes(append(about(task), attribute.Int("bloom.attempt", task.Attempts))...))
	c := span.SpanContext()
	return fmt.Sprintf("00-%s-%s-%s", c.TraceID(), c.SpanID(), c.TraceFlags()), func(r attempt.Run) {
		span.SetAttributes(attribute.String("bloom.outcome", string(r.Completion.Status)), attribute.String("error.type", r.Completion.ErrorClass))
		if r.Completion.Status == bloom.OutcomeError {
			span.SetStatus(codes.Error, r.Completion.ErrorClass)
		}
		span.End()
	}
}

// about returns the attributes of a task: never its prompt or output.
func about(t bloom.Task) []attribute.KeyValue {
	return []attribute.KeyValue{attribute.String("bloom.task_id", t.ID), attribute.String("bloom.context_id", t.ContextID), attribute.String("bloom.agent", t.AgentSlug)}
}

// created records the first span of a task; began is when its request arrived. The caller's own
// trace is linked to it.
func (t *Tracing) created(ctx context.Context, task bloom.Task, began time.Time) {
	if t == nil {
		return
	}
	caller := trace.LinkFromContext(ctx)
	options := []trace.SpanStartOption{trace.WithNewRoot(), trace.WithTimestamp(began), trace.WithSpanKind(trace.SpanKindProducer), trace.WithAttributes(about(task)...)}
	if caller.SpanContext.IsValid() {
		options = append(options, trace.WithLinks(caller))
	}
	_, span := t.tracer.Start(context.WithValue(ctx, taskKey{}, task.ID), "create task", options...)
	span.End()
}

// leased records the span of a task's wait for a worker.
func (t *Tracing) leased(ctx context.Context, task bloom.Task, l bloom.Lease) {
	if t == nil {
		return
	}
	since := max(task.CreatedAt, min(task.RunAt, l.StartedAt))
	_, span := t.tracer.Start(inTask(ctx, task.ID), "wait for a worker", trace.WithTimestamp(time.UnixMilli(since)),
		trace.WithAttributes(attribute.String("bloom.task_id", task.ID), attribute.String("bloom.worker", l.WorkerID), attribute.Int("bloom.attempt", task.Attempts)))
	span.End(trace.WithTimestamp(time.UnixMilli(l.StartedAt)))
}

// completed records the span in which an outcome was recorded.
func (t *Tracing) completed(ctx context.Context, c bloom.Completed, began time.Time) {
	if t == nil {
		return
	}
	_, span := t.tracer.Start(inTask(ctx, c.Task.ID), "record the outcome", trace.WithTimestamp(began), trace.WithSpanKind(trace.SpanKindServer),
		trace.WithAttributes(attribute.String("bloom.task_id", c.Task.ID), attribute.String("bloom.outcome", string(c.Result.Status)), attribute.String("bloom.status", string(c.Task.Status))))
	span.End()
}

// inTask makes spans children of the task's first one.
func inTask(ctx context.Context, taskID string) context.Context {
	traceID, spanID := idsOf(taskID)
	return trace.ContextWithRemoteSpanContext(ctx, trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: traceID, SpanID: spanID, TraceFlags: trace.FlagsSampled, Remote: true}))
}

// idsOf returns the trace of a task, which has the task's id, and its first span.
func idsOf(taskID string) (trace.TraceID, trace.SpanID) {
	id, err := uuid.Parse(taskID)
	if err != nil {
		id = uuid.UUID{15: 1} // cannot happen: tasks' ids are UUIDs
	}
	sum := sha256.Sum256(id[:])
	return trace.TraceID(id), trace.SpanID(sum[:8])
}

type taskKey struct{}

// taskIDs gives the first span of a task the ids that others derive.
type taskIDs struct{}

// NewIDs implements the generator for spans without a parent.
func (taskIDs) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	if id, ok := ctx.Value(taskKey{}).(string); ok {
		return idsOf(id)
	}
	return trace.TraceID(uuid.New()), taskIDs{}.NewSpanID(ctx, trace.TraceID{})
}

// NewSpanID implements the generator for spans with a parent.
func (taskIDs) NewSpanID(context.Context, trace.TraceID) (id trace.SpanID) {
	_, _ = rand.Read(id[:]) // never fails since Go 1.24
	return id
}
