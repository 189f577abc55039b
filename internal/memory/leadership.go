package memory

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/bloom-runtime/bloom/internal/objects"
)

// policy is the only supported policy: the primary's memory is authoritative.
const policy = "primary_authoritative"

// Role is a node's role in a project.
type Role string

// The roles.
const (
	Primary   Role = "primary"
	Secondary Role = "secondary"
)

// Lease names the primary node. It is stored as leadership/lease.json.
type Lease struct {
	CanonicalID  string `json:"canonical_id"`
	PrimaryNode  string `json:"primary_node_id"`
	IssuedAt     int64  `json:"issued_at"`  // Unix seconds
	ExpiresAt    int64  `json:"expires_at"` // Unix seconds
	LeaseSeconds int64  `json:"lease_seconds"`
	Epoch        int64  `json:"epoch"` // grows when the primary changes
	Policy       string `json:"policy"`
	IssuedBy     string `json:"issued_by"`
	// NeedsSelection means that nobody chose this primary: it asked first, or the control
	// plane's selection has expired.
	NeedsSelection bool `json:"needs_ui_selection"`
	// SelectedAt and ControlEpoch are the time (Unix seconds, by the control plane's
	// clock) and the epoch of the control plane's selection, 0 if there is none.
	SelectedAt   float64 `json:"selected_at,omitempty"`
	ControlEpoch int64   `json:"control_epoch,omitempty"`
	// Nonce distinguishes leases that are otherwise equal.
	Nonce string `json:"nonce,omitempty"`
}

// Expired reports whether the lease has expired at now.
func (l Lease) Expired(now time.Time) bool { return now.Unix() >= l.ExpiresAt }

// selected reports whether the control plane's selection is in force.
func (l Lease) selected(now time.Time) bool {
	return l.ControlEpoch > 0 && !l.NeedsSelection && !l.Expired(now)
}

// role returns this node's role under l. An expired lease still names the primary: only a
// selection, by a person or the control plane, replaces it, so that a primary that was
// offline for an hour is not replaced by a node with an older memory.
func (p *Project) role(l Lease) Role {
	if l.PrimaryNode == p.Node {
		return Primary
	}
	return Secondary
}

// Leadership reads the lease; ok is false if there is none yet.
func (p *Project) Leadership(ctx context.Context) (l Lease, ok bool, err error) {
	_, err = p.readJSON(ctx, p.leaseKey(), &l)
	if errors.Is(err, objects.ErrNotFound) {
		return Lease{}, false, nil
	}
	return l, err == nil, err
}

// Role returns this node's role. It creates the first lease, and renews this node's lease
// after half its time. It renews a lease that has the control plane's selection only when
// that has expired.
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
		case p.role(l) == Primary && !l.selected(p.Now()) && p.Now().Unix() >= l.ExpiresAt-l.LeaseSeconds/2:
			next = p.lease(p.Node, l.Epoch)
			next.NeedsSelection = l.NeedsSelection || l.ControlEpoch > 0
			next.SelectedAt, next.ControlEpoch = l.SelectedAt, l.ControlEpoch
		default:
			return p.role(l), l, nil
		}
		err = p.writeLease(ctx, l, next, etag)
		if errors.Is(err, objects.ErrConflict) {
			continue // another node wrote one first
		}
		if err != nil {
			return "", Lease{}, fmt.Errorf("write the leadership: %w", err)
		}
		return p.role(next), next, nil
	}
}

// SelectedElsewhereError means that a selection of the control plane is in force.
type SelectedElsewhereError struct {
	Primary string
	Until   time.Time
}

func (e *SelectedElsewhereError) Error() string {
	return fmt.Sprintf("Membridge has selected %s as primary until %s: change the selection there (in the web application, or POST /projects/ID/leadership/select). If Membridge no longer exists, repeat this with --anyway",
		e.Primary, e.Until.Local().Format(time.DateTime))
}

// Select makes node the primary. A new primary begins a new epoch; selecting the same node
// again renews the lease. While a selection of the control plane is in force it fails with
// a *SelectedElsewhereError, unless anyway is true.
func (p *Project) Select(ctx context.Context, node string, lasts time.Duration, anyway bool) (Lease, error) {
	if strings.TrimSpace(node) == "" {
		return Lease{}, errors.New("the primary's name is required")
	}
	if err := p.Bucket.Ensure(ctx); err != nil {
		return Lease{}, err
	}
	for {
		var l Lease
		etag, err := p.readJSON(ctx, p.leaseKey(), &l)
		if err != nil && !errors.Is(err, objects.ErrNotFound) && !errors.Is(err, errUnreadable) {
			return Lease{}, fmt.Errorf("read the leadership: %w", err)
		}
		if l.selected(p.Now()) && l.PrimaryNode != node && !anyway {
			return Lease{}, &SelectedElsewhereError{Primary: l.PrimaryNode, Until: time.Unix(l.ExpiresAt, 0)}
		}
		next := p.lease(node, l.next(node))
		next.SelectedAt, next.ControlEpoch = l.SelectedAt, l.ControlEpoch
		if l.PrimaryNode != node && l.ControlEpoch > 0 {
			// Later than the control plane's selection, so that Follow ignores that one.
			next.SelectedAt, next.ControlEpoch = l.SelectedAt+0.001, 0
		}
		if lasts > 0 {
			next.LeaseSeconds = int64(lasts / time.Second)
			next.ExpiresAt = next.IssuedAt + next.LeaseSeconds
		}
		err = p.writeLease(ctx, l, next, etag)
		if errors.Is(err, objects.ErrConflict) {
			continue
		}
		return next, err
	}
}

// next returns the epoch of node's lease after l.
func (l Lease) next(node string) int64 {
	if l.PrimaryNode == node {
		return l.Epoch
	}
	return l.Epoch + 1
}

// Selection is the control plane's selection of the primary. Times are by its clock.
type Selection struct {
	Primary   string
	Epoch     int64
	At, Until time.Time
	By        string
}

// Follow copies the control plane's selection to the lease, and reports whether that
// changed it. Any node may do so; an older selection never replaces a later one.
func (p *Project) Follow(ctx context.Context, s Selection) (l Lease, changed bool, err error) {
	if err := p.Bucket.Ensure(ctx); err != nil {
		return Lease{}, false, err
	}
	at := float64(s.At.UnixMilli()) / 1000
	for {
		l = Lease{}
		etag, err := p.readJSON(ctx, p.leaseKey(), &l)
		if err != nil && !errors.Is(err, objects.ErrNotFound) && !errors.Is(err, errUnreadable) {
			return Lease{}, false, fmt.Errorf("read the leadership: %w", err)
		}
		if !l.before(s, at, p.Now()) {
			return l, false, nil
		}
		next := p.lease(s.Primary, max(l.next(s.Primary), s.Epoch))
		next.SelectedAt, next.ControlEpoch, next.IssuedBy = at, s.Epoch, s.By
		next.IssuedAt, next.ExpiresAt = s.At.Unix(), s.Until.Unix()
		next.LeaseSeconds = next.ExpiresAt - next.IssuedAt
		err = p.writeLease(ctx, l, next, etag)
		if errors.Is(err, objects.ErrConflict) {
			continue
		}
		return next, err == nil, err
	}
}

// clockAhead is how far in the future a selection may be by this node's clock.
const clockAhead = time.Hour

// before reports whether s, made at that Unix time, replaces the selection of the lease. The later
// one wins; but if only the lease's is far in the future, the control plane's clock was wrong, and
// the higher epoch wins.
func (l Lease) before(s Selection, at float64, now time.Time) bool {
	future := float64(now.Add(clockAhead).Unix())
	switch {
	case l.SelectedAt > future && at <= future && s.Epoch > l.ControlEpoch:
		return true
	case l.SelectedAt == at:
		return l.ControlEpoch < s.Epoch || l.PrimaryNode != s.Primary
	}
	return l.SelectedAt < at
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
