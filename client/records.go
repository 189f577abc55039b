package client

import (
	"context"
	"encoding/json"
	"iter"
	"strconv"
	"time"

	"github.com/bloom-runtime/bloom"
)

// Health is the health report of a runtime. Membridge is nil when it is not shown, for example to
// callers without a key.
type Health struct {
	Status    string           `json:"status"` // "ok" or "degraded"
	Service   string           `json:"service"`
	Uptime    float64          `json:"uptime"` // seconds
	Storage   string           `json:"storage"`
	Membridge *MembridgeHealth `json:"membridge"`
	Disk      *Disk            `json:"disk"`
	Artifacts *bloom.BlobState `json:"artifacts"` // nil from older servers
}

// Disk is the space on the file system of the server's data directory, in bytes. Low means that space
// should be freed.
type Disk struct {
	Free  uint64 `json:"free_bytes"`
	Total uint64 `json:"total_bytes"`
	Low   bool   `json:"low"`
}

// MembridgeHealth is the state of the runtime's connection to the control plane.
type MembridgeHealth struct {
	ConsecutiveFailures int     `json:"consecutiveFailures"`
	LastSuccess         *int64  `json:"lastSuccess"` // Unix milliseconds
	LastError           *string `json:"lastError"`
	Connected           bool    `json:"connected"`
	SkippedAgents       int     `json:"skippedAgents"` // invalid entries in the last list of agents
	SkippedWhy          string  `json:"skippedWhy"`    // what is wrong with the first one
}

// Config is the configuration of the control plane; the key is masked.
type Config struct {
	MembridgeServerURL string `json:"membridge_server_url"`
	AdminKeyMasked     string `json:"admin_key_masked"`
	Connected          bool   `json:"connected"`
	LastTest           *int64 `json:"last_test"` // Unix milliseconds
}

// ConnectionTest is the result of contacting the control plane.
type ConnectionTest struct {
	Connected bool            `json:"connected"`
	Health    json.RawMessage `json:"health,omitempty"` // membridge's response
	Error     string          `json:"error,omitempty"`
}

// Health returns the health report. It fails when the runtime is degraded (503).
func (c *Client) Health(ctx context.Context) (Health, error) {
	return get[Health](ctx, c, "/health")
}

// Stats returns the counts of the overview.
func (c *Client) Stats(ctx context.Context) (bloom.Stats, error) {
	return get[bloom.Stats](ctx, c, "/stats")
}

// Series returns the time series between two times. Zero values mean: a day before to, now, and the
// finest step available for the period.
func (c *Client) Series(ctx context.Context, from, to time.Time, step time.Duration) (bloom.Series, error) {
	q := newQuery(bloom.Page{})
	for name, at := range map[string]time.Time{"from": from, "to": to} {
		if !at.IsZero() {
			q = q.with(name, strconv.FormatInt(at.UnixMilli(), 10))
		}
	}
	if step != 0 {
		q = q.with("step", strconv.FormatInt(int64(step/time.Second), 10))
	}
	return get[bloom.Series](ctx, c, q.on("/stats/series"))
}

// Problems returns what is wrong with the installation, most severe first.
func (c *Client) Problems(ctx context.Context) (bloom.Problems, error) {
	return get[bloom.Problems](ctx, c, "/problems")
}

// Config returns the configuration of the control plane.
func (c *Client) Config(ctx context.Context) (Config, error) {
	return get[Config](ctx, c, "/config")
}

// SaveConfig sets the control plane's URL and admin key.
func (c *Client) SaveConfig(ctx context.Context, membridgeURL, adminKey string) (Config, error) {
	out, _, err := post[Config](ctx, c, "/config", struct {
		URL string `json:"membridge_server_url"`
		Key string `json:"admin_key"`
	}{membridgeURL, adminKey}, safe)
	return out, err
}

// TestConnection makes the runtime contact the control plane now. An unreachable control plane is a
// result, not an error.
func (c *Client) TestConnection(ctx context.Context) (ConnectionTest, error) {
	out, _, err := post[ConnectionTest](ctx, c, "/test-connection", struct{}{}, unsafe)
	return out, err
}

// Audit returns one page of audit entries, newest first, and the cursor of the next page.
func (c *Client) Audit(ctx context.Context, q bloom.AuditQuery) ([]bloom.Audit, bloom.Cursor, error) {
	return list[bloom.Audit](ctx, c, newQuery(q.Page).with("entity_id", q.EntityID).with("action", q.Action).on("/audit"))
}

// AllAudit iterates over the audit from q's page on.
func (c *Client) AllAudit(ctx context.Context, q bloom.AuditQuery) iter.Seq2[bloom.Audit, error] {
	return every(q.Page, func(p bloom.Page) ([]bloom.Audit, bloom.Cursor, error) {
		q.Page = p
		return c.Audit(ctx, q)
	})
}

// Artifacts returns one page of artifacts, newest first, and the cursor of the next page.
func (c *Client) Artifacts(ctx context.Context, q bloom.ArtifactQuery) ([]bloom.Artifact, bloom.Cursor, error) {
	return list[bloom.Artifact](ctx, c, newQuery(q.Page).with("task_id", q.TaskID).with("short_id", q.ShortID).with("type", q.Type).on("/artifacts"))
}

// AllArtifacts iterates over the artifacts from q's page on.
func (c *Client) AllArtifacts(ctx context.Context, q bloom.ArtifactQuery) iter.Seq2[bloom.Artifact, error] {
	return every(q.Page, func(p bloom.Page) ([]bloom.Artifact, bloom.Cursor, error) {
		q.Page = p
		return c.Artifacts(ctx, q)
	})
}

// Artifact returns one artifact.
func (c *Client) Artifact(ctx context.Context, id string) (bloom.Artifact, error) {
	return get[bloom.Artifact](ctx, c, "/artifacts/"+seg(id))
}
