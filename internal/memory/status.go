package memory

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/bloom-runtime/bloom/internal/objects"
)

// Status is what is known of a project's memory, here and in the storage.
type Status struct {
	Project     string    `json:"project"`
	CanonicalID string    `json:"canonical_id"`
	Node        string    `json:"node"`
	DB          string    `json:"db"`
	Local       *Local    `json:"local"`  // null when there is no database
	Remote      *Manifest `json:"remote"` // null when nothing was pushed
	InStep      bool      `json:"in_step"`
	Role        Role      `json:"role,omitempty"` // empty when no node leads yet
	Lease       *Lease    `json:"lease"`
	Expired     bool      `json:"lease_expired"`
	PushedBy    string    `json:"push_in_progress_by,omitempty"`
}

// Local describes the database of this node.
type Local struct {
	SHA256       string    `json:"sha256,omitempty"`
	Size         int64     `json:"size"` // bytes
	Observations int64     `json:"observations"`
	Modified     time.Time `json:"modified"`
	Damage       string    `json:"damage,omitempty"`
}

// Status reads and changes nothing.
func (p *Project) Status(ctx context.Context) (Status, error) {
	s := Status{Project: p.Project, CanonicalID: p.id, Node: p.Node, DB: p.DB}
	there, err := p.look(ctx)
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

// Finding is one check of the doctor's.
type Finding struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
	Fix    string `json:"fix,omitempty"` // what to do
	// repair does it, where that takes no decision.
	repair func(context.Context) error
	// Repaired: the doctor did it.
	Repaired bool `json:"repaired,omitempty"`
}

// Doctor examines everything that push and pull rely on, and what a push or pull that
// died may have left. With repair it mends what takes no decision.
func (p *Project) Doctor(ctx context.Context, repair bool) []Finding {
	found := []Finding{p.checkBucket(ctx)}
	found = append(found, p.checkLocal(ctx), p.checkLeftovers())
	if found[0].OK {
		found = append(found, p.checkRemote(ctx), p.checkLock(ctx), p.checkLease(ctx))
	}
	for i, f := range found {
		if f.OK || f.repair == nil || !repair {
			continue
		}
		if err := f.repair(ctx); err != nil {
			found[i].Detail += fmt.Sprintf(" (could not be repaired: %v)", err)
			continue
		}
		found[i].OK, found[i].Repaired = true, true
	}
	return found
}

func bad(name string, err error, fix string) Finding {
	return Finding{Name: name, Detail: err.Error(), Fix: fix}
}

func (p *Project) checkBucket(ctx context.Context) Finding {
	const name = "object storage"
	if err := p.Bucket.Probe(ctx); err != nil {
		return bad(name, err, "check MINIO_ENDPOINT, the keys, and that the storage is running")
	}
	return Finding{Name: name, OK: true, Detail: "bucket " + p.Bucket.Name() + " can be read, written and deleted from, and keeps conditions"}
}

func (p *Project) checkLocal(ctx context.Context) Finding {
	const name = "local database"
	there, err := p.look(ctx)
	if err != nil {
		return bad(name, err, "check that "+p.DB+" can be read")
	}
	defer there.remove()
	switch {
	case !there.exists:
		return Finding{Name: name, OK: true, Detail: "there is none at " + p.DB + ": the first pull brings it"}
	case there.damage != nil:
		return bad(name, there.damage, "pull: the damaged file is kept in "+p.BackupFolder())
	}
	return Finding{Name: name, OK: true, Detail: fmt.Sprintf("sound, %d observations, SHA-256 %.12s", there.Observations, there.SHA256)}
}

// checkLeftovers finds files of a push or pull that was killed. One that is young may
// belong to a push or pull that is still running.
func (p *Project) checkLeftovers() Finding {
	const name, young = "leftovers", time.Hour
	files, _ := filepath.Glob(filepath.Join(filepath.Dir(p.DB), temporaryPattern))
	halves, _ := filepath.Glob(filepath.Join(p.BackupFolder(), half+"*"))
	var old []string
	for _, path := range append(files, halves...) {
		if info, err := os.Stat(path); err == nil && p.Now().Sub(info.ModTime()) > young {
			old = append(old, path)
		}
	}
	if len(old) == 0 {
		return Finding{Name: name, OK: true, Detail: "none"}
	}
	return Finding{Name: name, Detail: fmt.Sprintf("%d files of a push or pull that was killed", len(old)), Fix: "bloom memory doctor --repair removes them",
		repair: func(context.Context) error {
			var errs error
			for _, path := range old {
				errs = errors.Join(errs, os.RemoveAll(path))
			}
			return errs
		}}
}

func (p *Project) checkRemote(ctx context.Context) Finding {
	const name = "stored memory"
	m, _, err := p.remote(ctx)
	if err != nil {
		return bad(name, err, "push again from the primary")
	}
	if m == nil {
		return Finding{Name: name, OK: true, Detail: "nothing was pushed yet"}
	}
	if err := p.verify(ctx, p.source(m), m.SHA256); err != nil {
		return bad(name, err, "push again from the primary")
	}
	sum, _, err := p.Bucket.Read(ctx, p.key("sqlite", "claude-mem.db.sha256"))
	if m.Version != "" && (errors.Is(err, objects.ErrNotFound) || err == nil && string(sum[:min(len(sum), 64)]) != m.SHA256) {
		return Finding{Name: name, Detail: "a push died before its last step; the memory before it is whole, but tools that read claude-mem.db see the later one",
			Fix: "push again from the primary, or bloom memory doctor --repair puts the earlier one back", repair: func(ctx context.Context) error { return p.putBack(ctx, m) }}
	}
	return Finding{Name: name, OK: true, Detail: fmt.Sprintf("whole, %d observations, pushed by %s at %s", m.Observations, m.SourceHost, m.Timestamp.Format(time.RFC3339))}
}

// putBack makes the names that other tools read say what the manifest says.
func (p *Project) putBack(ctx context.Context, m *Manifest) (err error) {
	release, err := p.acquire(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, release(context.WithoutCancel(ctx))) }()
	return p.publish(ctx, p.source(m), m.SHA256)
}

func (p *Project) checkLock(ctx context.Context) Finding {
	const name = "lock"
	l, held, err := p.Lock(ctx)
	if err != nil {
		return bad(name, err, "push with --force, which replaces it")
	}
	if !held {
		return Finding{Name: name, OK: true, Detail: "free"}
	}
	age := p.Now().Sub(time.Unix(l.Timestamp, 0))
	if age > p.LockTTL+p.LockGrace {
		return Finding{Name: name, OK: true, Detail: fmt.Sprintf("left by %s %s ago; the next push takes it over", l.Holder, age.Round(time.Second))}
	}
	return Finding{Name: name, Detail: fmt.Sprintf("held by %s for %s", l.Holder, age.Round(time.Second)),
		Fix: fmt.Sprintf("wait for its push; if that is dead, the lock is free in %s, or push with --force", (p.LockTTL + p.LockGrace - age).Round(time.Second))}
}

func (p *Project) checkLease(ctx context.Context) Finding {
	const name = "leadership"
	l, ok, err := p.Leadership(ctx)
	switch {
	case err != nil:
		return bad(name, err, "select the primary again: bloom memory leadership --select NODE")
	case !ok:
		return Finding{Name: name, OK: true, Detail: "no node leads yet: the first push decides"}
	case l.NeedsSelection:
		return Finding{Name: name, Detail: l.PrimaryNode + " is primary because it was the first that asked; nobody chose it",
			Fix: "choose: bloom memory leadership --select " + l.PrimaryNode}
	case l.Expired(p.Now()):
		return Finding{Name: name, OK: true, Detail: fmt.Sprintf("%s is primary (epoch %d); its lease ran out, it renews it when it pushes", l.PrimaryNode, l.Epoch)}
	}
	return Finding{Name: name, OK: true, Detail: fmt.Sprintf("%s is primary (epoch %d)", l.PrimaryNode, l.Epoch)}
}
