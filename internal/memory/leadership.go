package memory

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/bloom-runtime/bloom/internal/objects"
)

// policy is the only one there is: what the primary has is the memory.
const policy = "primary_authoritative"

// Role is what a node is for a project.
type Role string

// The roles.
const (
	Primary   Role = "primary"
	Secondary Role = "secondary"
)

// Lease says which node is primary. It is stored as leadership/lease.json.
type Lease struct {
	CanonicalID  string `json:"canonical_id"`
	PrimaryNode  string `json:"primary_node_id"`
	IssuedAt     int64  `json:"issued_at"`  // Unix seconds
	ExpiresAt    int64  `json:"expires_at"` // Unix seconds
	LeaseSeconds int64  `json:"lease_seconds"`
	Epoch        int64  `json:"epoch"` // grows when the primary changes
	Policy       string `json:"policy"`
	IssuedBy     string `json:"issued_by"`
	// NeedsSelection: nobody chose this primary; it was the first that asked.
	NeedsSelection bool `json:"needs_ui_selection"`
	// Nonce tells two leases apart that are alike in all else.
	Nonce string `json:"nonce,omitempty"`
}

// Expired reports whether the lease has run out at now.
func (l Lease) Expired(now time.Time) bool { return now.Unix() >= l.ExpiresAt }

// role is this node's role under l. A lease that ran out still names the primary:
// only a selection, by a person or the control plane, replaces it, so that a primary
// that was away for an hour is not overtaken by an older memory.
func (p *Project) role(l Lease) Role {
	if l.PrimaryNode == p.Node {
		return Primary
	}
	return Secondary
}

// Leadership reads the lease without changing anything; ok is false when there is
// none yet.
func (p *Project) Leadership(ctx context.Context) (l Lease, ok bool, err error) {
	_, err = p.readJSON(ctx, p.leaseKey(), &l)
	if errors.Is(err, objects.ErrNotFound) {
		return Lease{}, false, nil
	}
	return l, err == nil, err
}

// Role returns this node's role. It makes the first lease when there is none, and
// renews one of its own that is more than half over.
func (p *Project) Role(ctx context.Context) (Role, Lease, error) {
	for {
		var l Lease
		etag, err := p.readJSON(ctx, p.leaseKey(), &l)
		var next Lease
		switch {
		case errors.Is(err, objects.ErrNotFound):
			primary := p.Primary
			if primary == "" {
				primary = p.Node
			}
			next = p.lease(primary, 1)
			next.NeedsSelection = p.Primary == ""
		case err != nil:
			return "", Lease{}, fmt.Errorf("read the leadership: %w", err)
		case p.role(l) == Primary && p.Now().Unix() >= l.ExpiresAt-l.LeaseSeconds/2:
			next = p.lease(p.Node, l.Epoch)
			next.NeedsSelection = l.NeedsSelection
		default:
			return p.role(l), l, nil
		}
		err = p.writeLease(ctx, next, etag)
		if errors.Is(err, objects.ErrConflict) {
			continue // another node was first: see what it wrote
		}
		if err != nil {
			return "", Lease{}, fmt.Errorf("write the leadership: %w", err)
		}
		return p.role(next), next, nil
	}
}

// Select makes node the primary; a new primary begins a new epoch. By whom it was
// chosen is kept. The same selection again renews the lease.
func (p *Project) Select(ctx context.Context, node string, lasts time.Duration) (Lease, error) {
	if strings.TrimSpace(node) == "" {
		return Lease{}, errors.New("name the node that is to be primary")
	}
	if err := p.Bucket.Ensure(ctx); err != nil {
		return Lease{}, err
	}
	for {
		var l Lease
		etag, err := p.readJSON(ctx, p.leaseKey(), &l)
		if err != nil && !errors.Is(err, objects.ErrNotFound) {
			return Lease{}, fmt.Errorf("read the leadership: %w", err)
		}
		epoch := l.Epoch
		if l.PrimaryNode != node {
			epoch++
		}
		next := p.lease(node, epoch)
		if lasts > 0 {
			next.LeaseSeconds = int64(lasts / time.Second)
			next.ExpiresAt = next.IssuedAt + next.LeaseSeconds
		}
		err = p.writeLease(ctx, next, etag)
		if errors.Is(err, objects.ErrConflict) {
			continue
		}
		return next, err
	}
}

func (p *Project) lease(primary string, epoch int64) Lease {
	now := p.Now().Unix()
	seconds := int64(p.Lease / time.Second)
	return Lease{
		CanonicalID: p.id, PrimaryNode: primary, IssuedAt: now, ExpiresAt: now + seconds, LeaseSeconds: seconds,
		Epoch: epoch, Policy: policy, IssuedBy: p.Node, Nonce: rand.Text(),
	}
}

func (p *Project) leaseKey() string { return p.key("leadership", "lease.json") }

// writeLease swaps the lease in, then records it. The record is a courtesy to people:
// a lease that stands is not taken back for want of one.
func (p *Project) writeLease(ctx context.Context, l Lease, etag string) error {
	if _, err := p.swapJSON(ctx, p.leaseKey(), l, etag); err != nil {
		return err
	}
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
	_, _ = p.Bucket.Swap(ctx, p.key("leadership", "audit", name), data, "")
	return nil
}
