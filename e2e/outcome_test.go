package e2e_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/client"
	"github.com/bloom-runtime/bloom/internal/storable"
)

// spec returns a task for one of the model's scenarios.
func spec(scenario string) bloom.TaskSpec {
	return bloom.TaskSpec{
		ContextID: "context of " + scenario, AgentSlug: "assistant", Prompt: "scenario " + scenario + "; go on", MaxAttempts: 1,
		Policy: bloom.Policy{TimeoutSec: 600},
	}
}

func (h *harness) submit(t *testing.T, s bloom.TaskSpec) bloom.Task {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	task, err := h.api.Submit(ctx, s)
	if err != nil {
		t.Fatalf("submit: %v", err)
	}
	return task
}

// outcome is everything that a client can learn about an ended task.
type outcome struct {
	t       *testing.T
	task    bloom.Task
	results []bloom.Result
	output  string
	events  []bloom.Event
	audit   []bloom.Audit // oldest first
}

// await waits for a task's end and reads everything about it.
func (h *harness) await(t *testing.T, id string) outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	o := outcome{t: t}
	for event, err := range h.api.FollowEvents(ctx, id, client.FollowOptions{}) {
		if err != nil {
			t.Fatalf("follow task %s: %v; events so far: %s", id, err, kinds(o.events))
		}
		o.events = append(o.events, event)
	}
	return h.read(ctx, t, id, o)
}

func (h *harness) read(ctx context.Context, t *testing.T, id string, o outcome) outcome {
	t.Helper()
	var err error
	if o.task, err = h.api.Task(ctx, id); err != nil {
		t.Fatal(err)
	}
	if o.results, err = h.api.Results(ctx, id); err != nil {
		t.Fatal(err)
	}
	if len(o.results) > 0 {
		artifact, err := h.api.Artifact(ctx, o.results[0].ArtifactID)
		if err != nil || artifact.TaskID != id || !artifact.Finalized {
			t.Errorf("artifact of the result = %+v, %v", artifact, err)
		}
		_, output, err := h.api.TaskOutput(ctx, id)
		if err != nil {
			t.Errorf("output: %v", err)
		}
		o.output = string(output)
	}
	for entry, err := range h.api.AllAudit(ctx, bloom.AuditQuery{EntityID: id}) {
		if err != nil {
			t.Fatal(err)
		}
		o.audit = append(o.audit, entry)
	}
	slices.Reverse(o.audit)
	return o
}

// untilEvent waits for an event of the type in a task's stream.
func (h *harness) untilEvent(t *testing.T, id, typ string) bloom.Event {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var seen []bloom.Event
	for event, err := range h.api.FollowEvents(ctx, id, client.FollowOptions{}) {
		if err != nil {
			t.Fatalf("waiting for %s: %v; events so far: %s", typ, err, kinds(seen))
		}
		if event.Type == typ {
			return event
		}
		seen = append(seen, event)
	}
	t.Fatalf("task %s ended without an event %s: %s", id, typ, kinds(seen))
	return bloom.Event{}
}

func kinds(events []bloom.Event) string {
	var list []string
	for _, e := range events {
		list = append(list, e.Type)
	}
	return strings.Join(list, " ")
}

// of returns the data of the events of a type.
func (o outcome) of(typ string) []map[string]any {
	o.t.Helper()
	var all []map[string]any
	for _, e := range o.events {
		if e.Type != typ {
			continue
		}
		var d map[string]any
		if err := json.Unmarshal(e.Data, &d); err != nil {
			o.t.Fatalf("data of event %d: %v", e.Seq, err)
		}
		all = append(all, d)
	}
	return all
}

func (o outcome) actions() string {
	var list []string
	for _, a := range o.audit {
		list = append(list, a.Action)
	}
	return strings.Join(list, " ")
}

// succeeded expects a completed task with one result.
func (o outcome) succeeded(output string) {
	o.t.Helper()
	if o.task.Status != bloom.TaskCompleted || len(o.results) != 1 || o.results[0].Status != bloom.OutcomeSuccess {
		o.t.Fatalf("task is %s with %d results, want completed with one; %s", o.task.Status, len(o.results), o.story())
	}
	if o.output != output {
		o.t.Errorf("output = %.200q, want %.200q", o.output, output)
	}
}

// failed expects a failed task with one result of the class.
func (o outcome) failed(class bloom.ErrorClass) {
	o.t.Helper()
	if o.task.Status != bloom.TaskFailed || len(o.results) != 1 {
		o.t.Fatalf("task is %s with %d results, want failed with one; %s", o.task.Status, len(o.results), o.story())
	}
	r := o.results[0]
	if r.Status != bloom.OutcomeError || r.ErrorClass == nil || *r.ErrorClass != class || r.ErrorMessage == nil || *r.ErrorMessage == "" {
		o.t.Errorf("result = %s, want class %s with a message", storable.MustJSON(r), class)
	}
	if o.task.ErrorClass == nil || *o.task.ErrorClass != class {
		o.t.Errorf("task = %s, want class %s", storable.MustJSON(o.task.TaskState), class)
	}
}

// story describes the task for a failing test.
func (o outcome) story() string {
	s := "events: " + kinds(o.events) + "; audit: " + o.actions()
	for _, r := range o.results {
		s += "; result: " + clip(string(storable.MustJSON(r)), 600)
	}
	return s
}

func clip(s string, most int) string {
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}
