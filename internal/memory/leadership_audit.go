package memory

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/bloom-runtime/bloom/internal/objects"
)

// MaxLeadershipAudit is how many of the latest changes of the leadership the bucket keeps.
const MaxLeadershipAudit = 200

// maxRecordsRemoved bounds what one change of the leadership removes. An earlier version recorded
// every renewal, thousands a year, and whoever changes the leadership waits.
const maxRecordsRemoved = 100

// writeLease replaces the lease before by l, then records that in the audit folder. It ignores a
// failure to record it, because the lease is already in force.
func (p *Project) writeLease(ctx context.Context, before, l Lease, etag string) error {
	// Check each time that conditional writes work, which is cheap because leases are
	// written rarely.
	if err := p.Bucket.Probe(ctx); err != nil {
		return err
	}
	if _, err := p.swapJSON(ctx, p.leaseKey(), l, etag); err != nil {
		return err
	}
	if !l.renews(before) {
		_ = p.record(ctx, l)
	}
	return nil
}

// renews reports whether l differs from before only in its times. Renewals are not recorded: there
// would be dozens a day.
func (l Lease) renews(before Lease) bool {
	return l.PrimaryNode == before.PrimaryNode && l.Epoch == before.Epoch && l.NeedsSelection == before.NeedsSelection &&
		l.SelectedAt == before.SelectedAt && l.ControlEpoch == before.ControlEpoch
}

// record writes l to the audit folder and removes the oldest entries there, some of them if there are many.
func (p *Project) record(ctx context.Context, l Lease) error {
	entry := struct {
		Lease

		Event     string    `json:"event"`
		Timestamp time.Time `json:"timestamp"`
	}{l, "lease_written", p.Now().UTC()}
	data, err := json.MarshalIndent(entry, "", "  ")
	if err != nil {
		return err
	}
	name := p.Now().UTC().Format("20060102T150405.000Z") + "-" + strings.NewReplacer("/", "_", ":", "_").Replace(p.Node) + ".json"
	if _, err := p.Bucket.Swap(ctx, p.key("leadership", "audit", name), data, ""); err != nil {
		return err
	}
	var all []objects.Info // oldest first: their names begin with the time
	for o, err := range p.Bucket.List(ctx, p.key("leadership", "audit")+"/") {
		if err != nil {
			return err
		}
		all = append(all, o)
	}
	p.remove(ctx, all[:min(max(0, len(all)-MaxLeadershipAudit), maxRecordsRemoved)])
	return nil
}
