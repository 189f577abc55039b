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
	// NeedsSelection: nobody chose this primary, which was the first that asked, or the
	// control plane's choice has run out.
	NeedsSelection bool `json:"needs_ui_selection"`
	// SelectedAt and ControlEpoch are the time (Unix seconds, by its clock) and the
	// epoch of the control plane's selection that this lease follows; 0 when it follows
	// none.
	SelectedAt   float64 `json:"selected_at,omitempty"`
	ControlEpoch int64   `json:"control_epoch,omitempty"`
	// Nonce tells two leases apart that are alike in all else.
	Nonce string `json:"nonce,omitempty"`
}

// Expired reports whether the lease has run out at now.
func (l Lease) Expired(now time.Time) bool { return now.Unix() >= l.ExpiresAt }

// selected reports whether the control plane's selection is in force.
func (l Lease) selected(now time.Time) bool {
	return l.ControlEpoch > 0 && !l.NeedsSelection && !l.Expired(now)
}

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
// renews one of its own that is more than half over; one that follows the control
// plane's selection only when that has run out.
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

// SelectedElsewhereError says that the control plane has chosen the primary, until a
// time.
type SelectedElsewhereError struct {
	Primary string
	Until   time.Time
}

func (e *SelectedElsewhereError) Error() string {
	return fmt.Sprintf("Membridge has selected %s as primary until %s: select there (in the web application, or POST /projects/ID/leadership/select). If there is no Membridge any more, repeat this with --anyway",
		e.Primary, e.Until.Local().Format(time.DateTime))
}

// Select makes node the primary; a new primary begins a new epoch. By whom it was
// chosen is kept. The same selection again renews the lease. While a selection of the
// control plane's is in force it fails with a *SelectedElsewhereError, unless anyway.
func (p *Project) Select(ctx context.Context, node string, lasts time.Duration, anyway bool) (Lease, error) {
	if strings.TrimSpace(node) == "" {
		return Lease{}, errors.New("name the node that is to be primary")
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
		next.SelectedAt = l.SelectedAt // an older selection of the control plane's stays older
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

// next is the epoch of the lease after l, if that is node's.
func (l Lease) next(node string) int64 {
	if l.PrimaryNode == node {
		return l.Epoch
	}
	return l.Epoch + 1
}

// Selection is the control plane's word on who leads, and until when. Times are by its
// clock.
type Selection struct {
	Primary   string
	Epoch     int64
	At, Until time.Time
	By        string
}

// Follow makes the lease say what the control plane has selected, and reports whether
// it said something else. Whichever node hears of a selection writes it; an older one
// never replaces a later one.
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
		if l.SelectedAt > at || l.SelectedAt == at && l.ControlEpoch >= s.Epoch && l.PrimaryNode == s.Primary {
			return l, false, nil
		}
		next := p.lease(s.Primary, max(l.next(s.Primary), s.Epoch))
		next.SelectedAt, next.ControlEpoch, next.IssuedBy = at, s.Epoch, s.By
		next.IssuedAt, next.ExpiresAt = s.At.Unix(), s.Until.Unix()
		next.LeaseSeconds = next.ExpiresAt - next.IssuedAt
		err = p.writeLease(ctx, next, etag)
		if errors.Is(err, objects.ErrConflict) {
			continue
		}
		return next, err == nil, err
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
	// A lease is written seldom, and worth nothing where two can write it at once.
	if err := p.Bucket.Probe(ctx); err != nil {
		return err
	}
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
