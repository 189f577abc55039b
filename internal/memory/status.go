package memory

import (
	"context"
	"os"
	"time"
)

// Status describes a project's memory, on this node and in the storage.
type Status struct {
	Project     string    `json:"project"`
	CanonicalID string    `json:"canonical_id"`
	Node        string    `json:"node"`
	DB          string    `json:"db"`
	Local       *Local    `json:"local"`  // null if there is no database
	Remote      *Manifest `json:"remote"` // null if nothing was pushed
	InStep      bool      `json:"in_step"`
	Role        Role      `json:"role,omitempty"` // empty if no node is primary yet
	Lease       *Lease    `json:"lease"`
	Expired     bool      `json:"lease_expired"`
	PushedBy    string    `json:"push_in_progress_by,omitempty"`
}

// Local describes this node's database.
type Local struct {
	SHA256       string    `json:"sha256,omitempty"`
	Size         int64     `json:"size"` // bytes
	Observations int64     `json:"observations"`
	Modified     time.Time `json:"modified"`
	Damage       string    `json:"damage,omitempty"`
}

// Status returns the memory's status. It changes nothing.
func (p *Project) Status(ctx context.Context) (Status, error) {
	s := Status{Project: p.Project, CanonicalID: p.id, Node: p.Node, DB: p.DB}
	there, err := p.readLocal(ctx)
	if err != nil {
		return s, err
	}
	defer there.remove()
	if s.Local, err = p.describe(there); err != nil {
		return s, err
	}
	if s.Remote, _, err = p.remote(ctx); err != nil {
		return s, err
	}
	s.InStep = s.Remote != nil && there.SHA256 == s.Remote.SHA256
	lease, ok, err := p.Leadership(ctx)
	if err != nil {
		return s, err
	}
	if ok {
		s.Role, s.Lease, s.Expired = p.role(lease), &lease, lease.Expired(p.Now())
	}
	lock, held, err := p.Lock(ctx)
	if held {
		s.PushedBy = lock.Holder
	}
	return s, err
}

func (p *Project) describe(there *local) (*Local, error) {
	if !there.exists {
		return nil, nil
	}
	info, err := os.Stat(p.DB)
	if err != nil {
		return nil, err
	}
	l := &Local{SHA256: there.SHA256, Size: info.Size(), Observations: there.Observations, Modified: info.ModTime().UTC()}
	if there.damage != nil {
		l.Damage = there.damage.Error()
	}
	return l, nil
}
