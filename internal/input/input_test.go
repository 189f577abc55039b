package input_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/input"
	"github.com/bloom-runtime/bloom/internal/storable"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

// TestConstantsAreTheLimitsOfTheirFields: the exported constants equal the limits that bodies are
// checked against.
func TestConstantsAreTheLimitsOfTheirFields(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		of         any
		field, tag string
		want       string
	}{
		{bloom.Policy{}, "TimeoutSec", "maximum", text(bloom.MaxTimeoutSec)},
		{bloom.Policy{}, "TimeoutSec", "default", text(bloom.DefaultTimeoutSec)},
		{bloom.TaskSpec{}, "MaxAttempts", "maximum", text(bloom.MaxMaxAttempts)},
		{bloom.TaskSpec{}, "MaxAttempts", "default", text(bloom.DefaultMaxAttempts)},
		{bloom.Completion{}, "ArtifactType", "default", bloom.DefaultArtifactType},
		{bloom.Metrics{}, "Warnings", "maxItems", text(bloom.MaxWarnings)},
		{bloom.WorkerSpec{}, "Name", "maxLength", text(contract.MaxWorkerName)},
		{bloom.Capabilities{}, "MaxConcurrency", "maximum", text(bloom.MaxConcurrency)},
		{bloom.TaskIDs{}, "IDs", "maxItems", text(bloom.MaxBulkTasks)},
	} {
		f, there := reflect.TypeOf(c.of).FieldByName(c.field)
		if got := f.Tag.Get(c.tag); !there || got != c.want {
			t.Errorf("%T.%s has %s %q, want %s", c.of, c.field, c.tag, got, c.want)
		}
	}
}

func text(n int) string { return strings.TrimSpace(string(storable.MustJSON(n))) }

func TestEveryLimitIsNamed(t *testing.T) {
	t.Parallel()
	var spec bloom.TaskSpec
	input.Defaults(&spec)
	spec.ContextID, spec.AgentSlug = strings.Repeat("é", 513), "a"
	spec.Policy.TimeoutSec, spec.Policy.Budget = 0, -1
	spec.MaxAttempts, spec.DesiredFormat = 11, "xml"
	spec.Labels = []string{"ok", ""}
	spec.ContextHints = make([]string, 1001)
	var invalid *bloom.Error
	if err := input.Check(spec); !errors.As(err, &invalid) || invalid.Kind != bloom.KindInvalid {
		t.Fatal(err)
	}
	want := []bloom.FieldError{
		{Field: "context_id", Message: "must have at most 512 characters"},
		{Field: "prompt", Message: "must not be empty"},
		{Field: "context_hints", Message: "must have at most 1000 entries"},
		{Field: "policy.timeout_sec", Message: "must be between 1 and 86400"},
		{Field: "policy.budget", Message: "must not be negative"},
		{Field: "desired_format", Message: "must be 'text' or 'json'"},
		{Field: "max_attempts", Message: "must be between 1 and 10"},
		{Field: "labels", Message: "must not be empty"},
	}
	if diff := cmp.Diff(want, invalid.Details); diff != "" {
		t.Error(diff)
	}
	completion := bloom.Completion{Status: bloom.OutcomeSuccess, Metrics: bloom.Metrics{Warnings: []bloom.Warning{{Text: "x"}}}}
	want = []bloom.FieldError{{Field: "metrics.warnings.code", Message: "must not be empty"}, {Field: "output", Message: "is required for a success; it may be empty"}}
	if err := input.Check(completion); !errors.As(err, &invalid) || cmp.Diff(want, invalid.Details) != "" {
		t.Error(err)
	}
}

func TestDefaultsAndCleanText(t *testing.T) {
	t.Parallel()
	var worker bloom.WorkerSpec
	input.Defaults(&worker)
	if !worker.Capabilities.ClaudeCLI || worker.Capabilities.MaxConcurrency != 1 || worker.Status != bloom.WorkerOnline {
		t.Errorf("a body that names nothing is %+v", worker)
	}
	labels, output := []string{"a\x00b"}, "\xff"
	c := bloom.Completion{Output: &output, ArtifactTags: labels, Metrics: bloom.Metrics{Warnings: []bloom.Warning{{Code: "\x00"}}}}
	input.Normalize(&c)
	if *c.Output != "\uFFFD" || c.ArtifactTags[0] != "a\uFFFDb" || c.Metrics.Warnings[0].Code != "\uFFFD" || c.ArtifactType != bloom.DefaultArtifactType {
		t.Errorf("normalized: %s", storable.MustJSON(c))
	}
	if labels[0] != "a\x00b" || output != "\xff" {
		t.Error("the caller's own values were changed")
	}
	spec := bloom.TaskSpec{Policy: bloom.Policy{TimeoutSec: 7}}
	input.Normalize(&spec)
	if spec.Labels == nil || spec.ContextHints == nil || spec.Policy.TimeoutSec != 7 || spec.MaxAttempts != bloom.DefaultMaxAttempts {
		t.Errorf("normalized: %+v", spec)
	}
}
