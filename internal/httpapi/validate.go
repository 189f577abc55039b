package httpapi

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/bloom-runtime/bloom"
)

// checker collects what is wrong with a body. Its messages state the limit and
// never the submitted value.
type checker struct{ details []bloom.FieldError }

func (c *checker) wrong(field, message string) {
	c.details = append(c.details, bloom.FieldError{Field: field, Message: message})
}

// text bounds the length of s in characters; most 0 means no bound.
func (c *checker) text(field, s string, least, most int) {
	n := utf8.RuneCountInString(s)
	switch {
	case n < least && least == 1:
		c.wrong(field, "must not be empty")
	case most > 0 && n > most:
		c.wrong(field, "must have at most "+strconv.Itoa(most)+" characters")
	}
}

func (c *checker) number(field string, n, least, most int64) {
	if n < least || n > most {
		c.wrong(field, "must be between "+itoa(least)+" and "+itoa(most))
	}
}

func (c *checker) atLeastZero(field string, n int64) {
	if n < 0 {
		c.wrong(field, "must not be negative")
	}
}

func (c *checker) count(field string, n, most int) {
	if n > most {
		c.wrong(field, "must have at most "+strconv.Itoa(most)+" entries")
	}
}

func oneOf[T ~string](c *checker, field string, v T, allowed ...T) {
	if slices.Contains(allowed, v) {
		return
	}
	words := make([]string, len(allowed))
	for i, a := range allowed {
		words[i] = "'" + string(a) + "'"
	}
	c.wrong(field, "must be "+strings.Join(words, " or "))
}

// err is nil when nothing is wrong.
func (c *checker) err() error {
	if len(c.details) == 0 {
		return nil
	}
	first := c.details[0]
	return bloom.Invalid("The request is wrong: "+first.Field+" "+first.Message, c.details...)
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

// defaultSpec is a task's body before anything is read into it.
func defaultSpec() bloom.TaskSpec {
	return bloom.TaskSpec{
		Policy:        bloom.Policy{TimeoutSec: bloom.DefaultTimeoutSec},
		DesiredFormat: bloom.FormatText,
		MaxAttempts:   bloom.DefaultMaxAttempts,
	}
}

func checkSpec(s *bloom.TaskSpec) error {
	s.DesiredFormat = cmp.Or(s.DesiredFormat, bloom.FormatText) // programs send "" for what they do not set
	var c checker
	c.text("context_id", s.ContextID, 1, 512)
	c.text("agent_slug", s.AgentSlug, 1, 256)
	c.text("prompt", s.Prompt, 1, 0)
	c.count("context_hints", len(s.ContextHints), 1000)
	c.number("policy.timeout_sec", int64(s.Policy.TimeoutSec), 1, bloom.MaxTimeoutSec)
	c.atLeastZero("policy.budget", s.Policy.Budget)
	oneOf(&c, "desired_format", s.DesiredFormat, bloom.FormatText, bloom.FormatJSON)
	c.number("max_attempts", int64(s.MaxAttempts), 1, bloom.MaxMaxAttempts)
	c.number("priority", int64(s.Priority), -1000, 1000)
	c.atLeastZero("run_at", s.RunAt)
	c.count("labels", len(s.Labels), 32)
	for _, l := range s.Labels {
		c.text("labels", l, 1, 128)
	}
	c.text("idempotency_key", s.IdempotencyKey, 0, 255)
	return c.err()
}

func defaultCompletion() bloom.Completion {
	return bloom.Completion{ArtifactType: bloom.DefaultArtifactType}
}

func checkCompletion(r *bloom.Completion) error {
	var c checker
	oneOf(&c, "status", r.Status, bloom.OutcomeSuccess, bloom.OutcomeError)
	if r.Status == bloom.OutcomeSuccess && r.Output == nil {
		c.wrong("output", "is needed for a success; it may be empty")
	}
	if r.Status == bloom.OutcomeError && (r.ErrorMessage == nil || *r.ErrorMessage == "") {
		c.wrong("error_message", "is needed for an error")
	}
	c.text("artifact_type", r.ArtifactType, 0, 128)
	c.count("artifact_tags", len(r.ArtifactTags), 64)
	c.text("error_class", r.ErrorClass, 0, 64)
	checkMetrics(&c, &r.Metrics)
	return c.err()
}

func checkMetrics(c *checker, m *bloom.Metrics) {
	c.atLeastZero("metrics.duration_ms", m.DurationMS)
	for _, n := range []struct {
		field string
		value *int64
	}{
		{"metrics.tokens_used", m.TokensUsed}, {"metrics.input_tokens", m.InputTokens},
		{"metrics.output_tokens", m.OutputTokens}, {"metrics.num_turns", m.NumTurns},
	} {
		if n.value != nil {
			c.atLeastZero(n.field, *n.value)
		}
	}
	if m.CostUSD != nil && *m.CostUSD < 0 {
		c.wrong("metrics.cost_usd", "must not be negative")
	}
	if m.CostKind != "" {
		oneOf(c, "metrics.cost_kind", m.CostKind, "api_usd", "subscription_estimate", "none")
	}
	c.count("metrics.warnings", len(m.Warnings), bloom.MaxWarnings)
	for _, w := range m.Warnings[:min(len(m.Warnings), bloom.MaxWarnings)] {
		c.text("metrics.warnings.code", w.Code, 1, 64)
		c.text("metrics.warnings.text", w.Text, 0, 1024)
	}
}

func defaultWorker() bloom.WorkerSpec {
	return bloom.WorkerSpec{
		Status:       bloom.WorkerOnline,
		Capabilities: bloom.Capabilities{ClaudeCLI: true, MaxConcurrency: 1},
	}
}

func checkWorker(w *bloom.WorkerSpec) error {
	w.Status = cmp.Or(w.Status, bloom.WorkerOnline)
	var c checker
	c.text("name", w.Name, 1, bloom.MaxWorkerName)
	if strings.ContainsFunc(w.Name, func(r rune) bool { return r < ' ' || r == '/' }) || w.Name == "." || w.Name == ".." {
		c.wrong("name", "must fit in an address: no slash and no control characters")
	}
	c.text("url", w.URL, 0, 2048)
	oneOf(&c, "status", w.Status, bloom.WorkerOnline, bloom.WorkerOffline, bloom.WorkerSyncing, bloom.WorkerError, bloom.WorkerUnknown)
	c.number("capabilities.max_concurrency", int64(w.Capabilities.MaxConcurrency), 1, bloom.MaxConcurrency)
	c.count("capabilities.labels", len(w.Capabilities.Labels), 64)
	c.count("ip_addrs", len(w.IPAddrs), 64)
	c.text("agent_version", w.AgentVersion, 0, 128)
	c.text("os_info", w.OSInfo, 0, 256)
	c.text("install_method", w.InstallMethod, 0, 64)
	c.text("instance_id", w.InstanceID, 0, 128)
	return c.err()
}

func checkRelease(r *bloom.ReleaseSpec) error {
	var c checker
	c.text("lease_id", r.LeaseID, 1, 0)
	c.text("reason", r.Reason, 0, 1024)
	c.atLeastZero("not_before", r.NotBefore)
	return c.err()
}

// claimBody is a worker's long poll.
type claimBody struct {
	InstanceID string   `json:"instance_id" required:"false" maxLength:"128" doc:"Identifies the living process"`
	Max        int      `json:"max" required:"false" minimum:"0" maximum:"32" default:"0" doc:"New tasks wanted; 0 only renews and listens"`
	WaitSec    int      `json:"wait_sec" required:"false" minimum:"0" maximum:"60" default:"0" doc:"How long to wait for something to say, in seconds"`
	Held       []string `json:"held" required:"false" nullable:"false" maxItems:"256" doc:"Leases the worker holds"`
	TTLSeconds int      `json:"ttl_seconds" required:"false" minimum:"1" maximum:"7200" default:"300" doc:"Of new leases"`
}

func (b *claimBody) check() error {
	var c checker
	c.text("instance_id", b.InstanceID, 0, 128)
	c.number("max", int64(b.Max), 0, bloom.MaxConcurrency)
	c.number("wait_sec", int64(b.WaitSec), 0, 60)
	c.count("held", len(b.Held), 256)
	c.number("ttl_seconds", int64(b.TTLSeconds), bloom.MinLeaseTTLSec, bloom.MaxLeaseTTLSec)
	return c.err()
}

// leaseBody asks to lease one task.
type leaseBody struct {
	WorkerID   string `json:"worker_id" required:"false" maxLength:"128" doc:"Empty: the runtime picks"`
	TTLSeconds int    `json:"ttl_seconds" required:"false" minimum:"1" maximum:"7200" default:"300"`
}

func (b *leaseBody) check() error {
	var c checker
	c.text("worker_id", b.WorkerID, 0, 128)
	c.number("ttl_seconds", int64(b.TTLSeconds), bloom.MinLeaseTTLSec, bloom.MaxLeaseTTLSec)
	return c.err()
}

// heartbeatBody names the lease that a beat is for.
type heartbeatBody struct {
	LeaseID string `json:"lease_id" required:"false" doc:"Without one the task's active lease is meant"`
}

// configBody says where the control plane is.
type configBody struct {
	MembridgeURL string `json:"membridge_server_url" minLength:"1" maxLength:"2048"`
	AdminKey     string `json:"admin_key" minLength:"1" maxLength:"1024"`
}

func (b *configBody) check() error {
	var c checker
	c.text("membridge_server_url", b.MembridgeURL, 1, 2048)
	c.text("admin_key", b.AdminKey, 1, 1024)
	return c.err()
}

// drainBody drains a worker at the runtime, or undrains it there.
type drainBody struct {
	Drain bool `json:"drain" required:"false" default:"true"`
}
