package worker

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"
	"unicode/utf8"

	"github.com/bloom-runtime/bloom"
)

// maxCompletion bounds a completion's body: the wire takes 32 MB.
const maxCompletion = 31 << 20

// keptOutput is how much of an output is kept that is too long to be reported.
const keptOutput = 4 << 20

// failure is an attempt that ended in an error.
func failure(class bloom.ErrorClass, message string, retryable bool) bloom.Completion {
	return bloom.Completion{Status: bloom.OutcomeError, ErrorMessage: &message, ErrorClass: class, Retryable: retryable}
}

// completion is the delivery of an attempt's outcome, in a form that the server
// takes whatever a runner put into it.
func completion(l bloom.Lease, c bloom.Completion, now time.Time) *delivery {
	c = presentable(c)
	c.LeaseID = l.ID
	body := plainJSON(c)
	if len(body) > maxCompletion {
		c = cutDown(c)
		body = plainJSON(c)
	}
	return &delivery{Kind: deliveryCompletion, TaskID: l.TaskID, LeaseID: l.ID, At: bloom.Millis(now), Body: body,
		TTL: l.TTLSeconds, Status: c.Status, Class: c.ErrorClass}
}

// release is the delivery of a released lease.
func release(l bloom.Lease, reason string, notBefore int64, now time.Time) *delivery {
	spec := bloom.ReleaseSpec{LeaseID: l.ID, Reason: cut(reason, 1000), NotBefore: max(0, notBefore)}
	return &delivery{Kind: deliveryRelease, TaskID: l.TaskID, LeaseID: l.ID, At: bloom.Millis(now), Body: plainJSON(spec), TTL: l.TTLSeconds}
}

// of notes which request the task comes from; l may be nil.
func (l *delivery) of(t bloom.Task) *delivery {
	if l != nil {
		l.Request = requestOf(t)
	}
	return l
}

// logTo is log with what names the delivery.
func (l *delivery) logTo(log *slog.Logger) *slog.Logger {
	return logOf(log, l.TaskID, l.LeaseID, l.Request)
}

// requestOf is the id of the request that created a task; empty when that is not known.
func requestOf(t bloom.Task) string {
	if t.RequestID == nil {
		return ""
	}
	return *t.RequestID
}

// logOf is log with what names a task's lease and the request that created the task.
func logOf(log *slog.Logger, taskID, leaseID, request string) *slog.Logger {
	log = log.With("task_id", taskID, "lease_id", leaseID)
	if request != "" {
		log = log.With("request_id", request)
	}
	return log
}

// presentable fills what the contract requires and mends what it refuses.
func presentable(c bloom.Completion) bloom.Completion {
	if c.Status != bloom.OutcomeSuccess {
		c.Status = bloom.OutcomeError
		c.ErrorClass = cut(cmp.Or(c.ErrorClass, bloom.ClassInternal), 64)
		if c.ErrorMessage == nil || *c.ErrorMessage == "" {
			c.ErrorMessage = new("The attempt ended without saying why (" + c.ErrorClass + ")")
		}
	} else {
		c.ErrorClass, c.Retryable = "", false
		if c.Output == nil {
			c.Output = new("")
		}
	}
	c.ArtifactType = cut(cmp.Or(c.ArtifactType, bloom.DefaultArtifactType), 128)
	if c.ArtifactTags == nil {
		c.ArtifactTags = []string{}
	}
	c.ArtifactTags = c.ArtifactTags[:min(len(c.ArtifactTags), 64)]
	c.Metrics = sane(c.Metrics)
	return c
}

func sane(m bloom.Metrics) bloom.Metrics {
	m.DurationMS = max(0, m.DurationMS)
	for _, n := range []**int64{&m.TokensUsed, &m.InputTokens, &m.OutputTokens, &m.NumTurns} {
		if *n != nil && **n < 0 {
			*n = nil
		}
	}
	// The comparison is written so that NaN, which JSON cannot carry, fails it.
	if m.CostUSD != nil && !(*m.CostUSD >= 0 && *m.CostUSD < 1e12) {
		m.CostUSD = nil
	}
	switch m.CostKind {
	case "", "api_usd", "subscription_estimate", "none":
	default:
		m.CostKind = ""
	}
	m.Warnings = m.Warnings[:min(len(m.Warnings), bloom.MaxWarnings)]
	return m
}

// cutDown makes an error of an outcome that is too long to be reported, with
// the beginning of its output: nobody shall take a part for the whole.
func cutDown(c bloom.Completion) bloom.Completion {
	size := 0
	if c.Output != nil {
		size = len(*c.Output)
		c.Output = new(cut(*c.Output, keptOutput))
	}
	said := ""
	if c.ErrorMessage != nil {
		said = ": " + cut(*c.ErrorMessage, 64<<10)
	}
	message := fmt.Sprintf("The output (%d bytes) is longer than a completion may be; its beginning is kept%s", size, said)
	c.ErrorMessage = &message
	if c.Status == bloom.OutcomeSuccess {
		c.Status, c.ErrorClass, c.Retryable = bloom.OutcomeError, bloom.ClassOutputInvalid, false
	}
	return c
}

// cut is at most n bytes of s, ending at a character's end.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// plainJSON encodes without escaping <, > and &, which would swell code.
func plainJSON(v any) json.RawMessage {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err) // plain structs of strings and numbers that were made sane
	}
	return bytes.TrimRight(b.Bytes(), "\n")
}
