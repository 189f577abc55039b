package client

import (
	"context"
	"encoding/json"
	"iter"
	"strconv"
	"time"

	"github.com/bloom-runtime/bloom"
)

// Health is what the runtime says of itself. Membridge's part is nil when it is
// not shown, for example to callers without a key.
type Health struct {
	Status    string           `json:"status"` // "ok" or "degraded"
	Service   string           `json:"service"`
	Uptime    float64          `json:"uptime"` // seconds
	Storage   string           `json:"storage"`
	Membridge *MembridgeHealth `json:"membridge"`
	Disk      *Disk            `json:"disk"`
	Artifacts *bloom.BlobState `json:"artifacts"` // nil from a server that does not say
}

// Disk is the space of the server's data folder, in bytes. Low says that somebody
// should make room.
type Disk struct {
	Free  uint64 `json:"free_bytes"`
	Total uint64 `json:"total_bytes"`
	Low   bool   `json:"low"`
}

// MembridgeHealth is how the runtime gets on with the control plane.
type MembridgeHealth struct {
	ConsecutiveFailures int     `json:"consecutiveFailures"`
	LastSuccess         *int64  `json:"lastSuccess"` // Unix milliseconds
	LastError           *string `json:"lastError"`
	Connected           bool    `json:"connected"`
	SkippedAgents       int     `json:"skippedAgents"` // entries of the last list of agents that were none
	SkippedWhy          string  `json:"skippedWhy"`    // what is wrong with the first of them
}

// Config is how the runtime reaches the control plane; the key is masked.
type Config struct {
	MembridgeServerURL string `json:"membridge_server_url"`
	AdminKeyMasked     string `json:"admin_key_masked"`
	Connected          bool   `json:"connected"`
	LastTest           *int64 `json:"last_test"` // Unix milliseconds
}

// ConnectionTest is what came of asking the control plane.
type ConnectionTest struct {
	Connected bool            `json:"connected"`
	Health    json.RawMessage `json:"health,omitempty"` // membridge's own answer
	Error     string          `json:"error,omitempty"`
}

// Health asks whether the runtime is well. A degraded one (503) is an error.
func (c *Client) Health(ctx context.Context) (Health, error) {
	return get[Health](ctx, c, "/health")
}

// Stats reads the counts shown at a glance.
func (c *Client) Stats(ctx context.Context) (bloom.Stats, error) {
	return get[bloom.Stats](ctx, c, "/stats")
}

// Series reads the time series between two times in steps. The zero values stand for
// a day before the end, now, and the finest step that there is for all of it.
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

// Problems reads what is wrong with the installation, the worst first.
func (c *Client) Problems(ctx context.Context) (bloom.Problems, error) {
	return get[bloom.Problems](ctx, c, "/problems")
}

// Config reads how the runtime reaches the control plane.
func (c *Client) Config(ctx context.Context) (Config, error) {
	return get[Config](ctx, c, "/config")
}

// SaveConfig sets the control plane's address and admin key.
func (c *Client) SaveConfig(ctx context.Context, membridgeURL, adminKey string) (Config, error) {
	out, _, err := post[Config](ctx, c, "/config", struct {
		URL string `json:"membridge_server_url"`
		Key string `json:"admin_key"`
	}{membridgeURL, adminKey}, safe)
	return out, err
}

// TestConnection asks the runtime to reach the control plane now. A control
// plane that cannot be reached is an answer, not an error.
func (c *Client) TestConnection(ctx context.Context) (ConnectionTest, error) {
	out, _, err := post[ConnectionTest](ctx, c, "/test-connection", struct{}{}, unsafe)
	return out, err
}

// Audit reads one page, newest first, and where the next begins.
func (c *Client) Audit(ctx context.Context, q bloom.AuditQuery) ([]bloom.Audit, bloom.Cursor, error) {
	return list[bloom.Audit](ctx, c, newQuery(q.Page).with("entity_id", q.EntityID).with("action", q.Action).on("/audit"))
}

// AllAudit walks every page from q's on.
func (c *Client) AllAudit(ctx context.Context, q bloom.AuditQuery) iter.Seq2[bloom.Audit, error] {
	return every(q.Page, func(p bloom.Page) ([]bloom.Audit, bloom.Cursor, error) {
		q.Page = p
		return c.Audit(ctx, q)
	})
}

// Artifacts reads one page, newest first, and where the next begins.
func (c *Client) Artifacts(ctx context.Context, q bloom.ArtifactQuery) ([]bloom.Artifact, bloom.Cursor, error) {
	return list[bloom.Artifact](ctx, c, newQuery(q.Page).with("task_id", q.TaskID).on("/artifacts"))
}

// AllArtifacts walks every page from q's on.
func (c *Client) AllArtifacts(ctx context.Context, q bloom.ArtifactQuery) iter.Seq2[bloom.Artifact, error] {
	return every(q.Page, func(p bloom.Page) ([]bloom.Artifact, bloom.Cursor, error) {
		q.Page = p
		return c.Artifacts(ctx, q)
	})
}

// Artifact reads one artifact's row.
func (c *Client) Artifact(ctx context.Context, id string) (bloom.Artifact, error) {
	return get[bloom.Artifact](ctx, c, "/artifacts/"+seg(id))
}
