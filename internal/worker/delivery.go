package worker

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/storable"
	"github.com/bloom-runtime/bloom/internal/timing"
)

// maxCompletion is the maximum size of a completion's body. The server takes 32 MB.
const maxCompletion = 31 << 20

// maxKeptOutput is how much is kept of an output that is too long for a completion.
const maxKeptOutput = 4 << 20

// failure returns the completion of an attempt that failed.
func failure(class bloom.ErrorClass, message string, retryable bool) bloom.Completion {
	return bloom.Completion{Status: bloom.OutcomeError, ErrorMessage: &message, ErrorClass: class, Retryable: retryable}
}

// completion returns the delivery of an attempt's outcome, corrected so that the server
// accepts it whatever the runner returned.
func completion(l bloom.Lease, c bloom.Completion, now time.Time) *delivery {
	c = normalize(c)
	c.LeaseID = l.ID
	body := plainJSON(c)
	if len(body) > maxCompletion {
		c = truncateOutput(c)
		body = plainJSON(c)
	}
	return &delivery{Kind: deliveryCompletion, TaskID: l.TaskID, LeaseID: l.ID, At: timing.Millis(now), Body: body,
		TTL: l.TTLSeconds, Status: c.Status, Class: c.ErrorClass}
}

// release returns the delivery of a released lease.
func release(l bloom.Lease, reason string, notBefore int64, now time.Time) *delivery {
	spec := bloom.ReleaseSpec{LeaseID: l.ID, Reason: storable.Cut(reason, 1000), NotBefore: max(0, notBefore)}
	return &delivery{Kind: deliveryRelease, TaskID: l.TaskID, LeaseID: l.ID, At: timing.Millis(now), Body: plainJSON(spec), TTL: l.TTLSeconds}
}

// suspension returns the delivery of a suspended lease.
func suspension(l bloom.Lease, s bloom.SuspendSpec, now time.Time) *delivery {
	s.LeaseID, s.Metrics = l.ID, validMetrics(s.Metrics)
	return &delivery{Kind: deliverySuspension, TaskID: l.TaskID, LeaseID: l.ID, At: timing.Millis(now), Body: plainJSON(s), TTL: l.TTLSeconds}
}

// withRequest records the request that created the task; d may be nil.
func (d *delivery) withRequest(t bloom.Task) *delivery {
	if d != nil {
		d.Request = requestOf(t)
	}
	return d
}

// logger adds the delivery's ids to log.
func (d *delivery) logger(log *slog.Logger) *slog.Logger {
	return leaseLogger(log, d.TaskID, d.LeaseID, d.Request)
}

// requestOf returns the id of the request that created a task, "" if unknown.
func requestOf(t bloom.Task) string {
	if t.RequestID == nil {
		return ""
	}
	return *t.RequestID
}

// leaseLogger adds the ids of a task, its lease and the request that created it to log.
func leaseLogger(log *slog.Logger, taskID, leaseID, request string) *slog.Logger {
	log = log.With("task_id", taskID, "lease_id", leaseID)
	if request != "" {
		log = log.With("request_id", request)
	}
	return log
}

// normalize fills in required fields and corrects values that the server would refuse.
func normalize(c bloom.Completion) bloom.Completion {
	if c.Status != bloom.OutcomeSuccess {
		c.Status = bloom.OutcomeError
		c.ErrorClass = storable.Cut(cmp.Or(c.ErrorClass, bloom.ClassInternal), 64)
		if c.ErrorMessage == nil || *c.ErrorMessage == "" {
			c.ErrorMessage = new("The attempt failed without an error message (" + c.ErrorClass + ")")
		}
	} else {
		c.ErrorClass, c.Retryable = "", false
		if c.Output == nil {
			c.Output = new("")
		}
	}
	c.ArtifactType = storable.Cut(cmp.Or(c.ArtifactType, bloom.DefaultArtifactType), 128)
	if c.ArtifactTags == nil {
		c.ArtifactTags = []string{}
	}
	c.ArtifactTags = c.ArtifactTags[:min(len(c.ArtifactTags), 64)]
	c.Metrics = validMetrics(c.Metrics)
	return c
}

func validMetrics(m bloom.Metrics) bloom.Metrics {
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

// truncateOutput truncates an output that is too long for a completion. A success
// becomes an error, so that nobody takes the part for the whole.
func truncateOutput(c bloom.Completion) bloom.Completion {
	size := 0
	if c.Output != nil {
		size = len(*c.Output)
		c.Output = new(storable.Cut(*c.Output, maxKeptOutput))
	}
	reason := ""
	if c.ErrorMessage != nil {
		reason = ": " + storable.Cut(*c.ErrorMessage, 64<<10)
	}
	message := fmt.Sprintf("The output (%d bytes) is too long for a completion; only its beginning is kept%s", size, reason)
	c.ErrorMessage = &message
	if c.Status == bloom.OutcomeSuccess {
		c.Status, c.ErrorClass, c.Retryable = bloom.OutcomeError, bloom.ClassOutputInvalid, false
	}
	return c
}

// plainJSON encodes v without escaping <, > and &, which would lengthen code.
func plainJSON(v any) json.RawMessage {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err) // cannot happen: v has only strings and valid numbers
	}
	return bytes.TrimRight(b.Bytes(), "\n")
}
