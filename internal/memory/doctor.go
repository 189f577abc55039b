package memory

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/bloom-runtime/bloom/internal/objects"
)

// Finding is one check of the doctor's.
type Finding struct {
	Name string `json:"name"`
	OK   bool   `json:"ok"`
	// Note: it is ordinary, and somebody may still want to change it. OK is true.
	Note   bool   `json:"note,omitempty"`
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
	local, here := p.checkLocal(ctx)
	found = append(found, local, p.checkLeftovers())
	if found[0].OK {
		// The lock comes first: what a dead push left is repaired under it.
		stored, m := p.checkRemote(ctx)
		found = append(found, p.checkLock(ctx), stored, p.checkVersions(ctx, m), p.checkPull(here, m), p.checkLease(ctx))
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

// repairing is the command that repairs what takes no decision.
func (p *Project) repairing() string { return command(p.Project, "doctor") + " --repair" }

func (p *Project) checkBucket(ctx context.Context) Finding {
	const name = "object storage"
	if err := p.Bucket.Probe(ctx); err != nil {
		return bad(name, err, "check MINIO_ENDPOINT, the keys, and that the storage is running")
	}
	return Finding{Name: name, OK: true, Detail: "bucket " + p.Bucket.Name() + " can be read, written and deleted from, and keeps conditions"}
}

// checkLocal also returns what is here; nil when that is not known.
func (p *Project) checkLocal(ctx context.Context) (Finding, *local) {
	const name = "local database"
	there, err := p.look(ctx)
	if err != nil {
		return bad(name, err, "check that "+p.DB+" can be read, and that nothing keeps it locked"), nil
	}
	there.remove()
	switch {
	case !there.exists:
		return Finding{Name: name, OK: true, Detail: "there is none at " + p.DB + ": the first pull brings it"}, there
	case there.damage != nil:
		return bad(name, there.damage, "pull: the damaged file is kept in "+p.BackupFolder()), nil
	}
	return Finding{Name: name, OK: true, Detail: fmt.Sprintf("sound, %d observations, SHA-256 %.12s", there.Observations, there.SHA256)}, there
}

// checkPull finds a pull that was killed between its safety backup and the replacement.
func (p *Project) checkPull(here *local, stored *Manifest) Finding {
	const name = "last pull"
	folders, err := p.Backups()
	if err != nil {
		return bad(name, err, "check that "+p.BackupFolder()+" can be read")
	}
	if len(folders) == 0 {
		return Finding{Name: name, OK: true, Detail: "none has overwritten anything"}
	}
	last := folders[len(folders)-1]
	var about BackupManifest
	text, err := os.ReadFile(filepath.Join(last, "manifest.json"))
	if err == nil {
		err = json.Unmarshal(text, &about)
	}
	switch {
	case err != nil:
		return Finding{Name: name, OK: true, Detail: last + " holds what an older tool kept"}
	case here != nil && stored != nil && about.RemoteSHA == stored.SHA256 && here.SHA256 != stored.SHA256 && p.inStepWith() != stored.SHA256:
		return Finding{Name: name, Detail: "one was killed after its safety backup (" + last + "); the database is whole, and has what it had before or what came, with what was written since",
			Fix: command(p.Project, "pull") + " does it again"}
	}
	return Finding{Name: name, OK: true, Detail: fmt.Sprintf("what it overwrote is one of %d backups in %s", len(folders), p.BackupFolder())}
}

// checkLeftovers finds files of a push or pull that was killed.
func (p *Project) checkLeftovers() Finding {
	const name = "leftovers"
	files, _ := filepath.Glob(filepath.Join(filepath.Dir(p.DB), temporaryPattern))
	halves, _ := filepath.Glob(filepath.Join(p.BackupFolder(), half+"*"))
	var old, kinds []string
	for _, path := range append(files, halves...) {
		if !p.abandoned(path) {
			continue
		}
		old = append(old, path)
		switch base := filepath.Base(path); {
		case strings.HasPrefix(base, half):
			kinds = append(kinds, "half a safety backup "+base)
		case strings.Contains(base, "-pull-"):
			kinds = append(kinds, "a download "+base)
		default:
			kinds = append(kinds, "a snapshot "+base)
		}
	}
	if len(old) == 0 {
		return Finding{Name: name, OK: true, Detail: "none"}
	}
	return Finding{Name: name, Detail: "a push or pull was killed and has left " + strings.Join(kinds, ", ") + "; the database is not touched by that",
		Fix: p.repairing() + " removes it", repair: func(context.Context) error {
			var errs error
			for _, path := range old {
				errs = errors.Join(errs, os.RemoveAll(path))
			}
			return errs
		}}
}

// checkRemote also returns the manifest; nil when there is none that counts.
func (p *Project) checkRemote(ctx context.Context) (Finding, *Manifest) {
	const name, again = "stored memory", "push again from the primary"
	m, _, err := p.remote(ctx)
	if err != nil {
		return bad(name, err, again), nil
	}
	if m == nil {
		return Finding{Name: name, OK: true, Detail: "nothing was pushed yet"}, nil
	}
	if err := p.verify(ctx, p.source(m), m.SHA256); err != nil {
		return bad(name, err, again), m
	}
	same, err := p.plainIs(ctx, m)
	if err != nil {
		return bad(name, err, again), m
	}
	if !same {
		return Finding{Name: name, Detail: "a push was killed before its last step; the memory before it is whole and is what others pull, but tools that read claude-mem.db see another one",
			Fix: again + ", or " + p.repairing() + " puts the earlier one back", repair: p.underLock(func(ctx context.Context) error {
				_, err := p.publish(ctx, p.source(m), m.SHA256)
				return err
			})}, m
	}
	return Finding{Name: name, OK: true, Detail: fmt.Sprintf("whole, %d observations, pushed by %s at %s", m.Observations, m.SourceHost, m.Timestamp.Format(time.RFC3339))}, m
}

// plainIs reports whether the names that other tools read say what the manifest says. Of
// a memory that another tool pushed they are all there is.
func (p *Project) plainIs(ctx context.Context, m *Manifest) (bool, error) {
	if m.Version == "" {
		return true, nil
	}
	sum, _, err := p.Bucket.Read(ctx, p.key("sqlite", "claude-mem.db.sha256"))
	if errors.Is(err, objects.ErrNotFound) || err == nil && !strings.HasPrefix(string(sum), m.SHA256) {
		return false, nil
	}
	if err != nil || m.PlainETag == "" {
		return true, err
	}
	info, err := p.Bucket.Stat(ctx, p.key("sqlite", "claude-mem.db"))
	if errors.Is(err, objects.ErrNotFound) {
		return false, nil
	}
	return info.ETag == m.PlainETag, err
}

// checkVersions finds what a push has uploaded that was killed before its manifest, or
// before it removed what is not needed any more.
func (p *Project) checkVersions(ctx context.Context, m *Manifest) Finding {
	const name = "uploads"
	if lock, held, err := p.Lock(ctx); err != nil || held && !p.stale(lock) {
		return Finding{Name: name, OK: true, Detail: "not looked at while a push is running"}
	}
	n, size := 0, int64(0)
	for object, err := range p.orphans(ctx, m) {
		if err != nil {
			return bad(name, err, "check that the storage can be listed")
		}
		n, size = n+1, size+object.Size
	}
	if n == 0 {
		return Finding{Name: name, OK: true, Detail: "nothing but this memory and the one before it"}
	}
	return Finding{Name: name, Detail: fmt.Sprintf("a push was killed and has left %d uploads (%d bytes) that no memory refers to", n, size),
		Fix: "the next push removes them, or " + p.repairing(), repair: p.underLock(func(ctx context.Context) error {
			p.sweepVersions(ctx, m)
			return nil
		})}
}

// underLock is do, while no push runs.
func (p *Project) underLock(do func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		release, err := p.acquire(ctx)
		if err != nil {
			return err
		}
		return errors.Join(do(ctx), release(context.WithoutCancel(ctx)))
	}
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
	if p.stale(l) {
		return Finding{Name: name, Detail: fmt.Sprintf("left by a push of %s that began %s ago and was killed", l.Holder, age.Round(time.Second)),
			Fix: "the next push takes it over, or " + p.repairing() + " frees it", repair: p.underLock(func(context.Context) error { return nil })}
	}
	return Finding{Name: name, Detail: fmt.Sprintf("held by %s for %s", l.Holder, age.Round(time.Second)),
		Fix: fmt.Sprintf("wait for its push; if that is dead, the lock is free in %s, or push with --force", (p.LockTTL + p.LockGrace - age).Round(time.Second))}
}

func (p *Project) checkLease(ctx context.Context) Finding {
	const name = "leadership"
	l, ok, err := p.Leadership(ctx)
	switch {
	case err != nil:
		return bad(name, err, "select the primary again: "+command(p.Project, "leadership")+" --select NODE")
	case !ok:
		return Finding{Name: name, OK: true, Detail: "no node leads yet: the first push decides"}
	case l.NeedsSelection:
		return Finding{Name: name, OK: true, Note: true, Detail: l.PrimaryNode + " is primary because it was the first that asked; nobody chose it",
			Fix: "to confirm it: " + selecting(p.Project, l.PrimaryNode)}
	case l.Expired(p.Now()):
		return Finding{Name: name, OK: true, Detail: fmt.Sprintf("%s is primary (epoch %d); its lease ran out, it renews it when it pushes", l.PrimaryNode, l.Epoch)}
	}
	return Finding{Name: name, OK: true, Detail: fmt.Sprintf("%s is primary (epoch %d)", l.PrimaryNode, l.Epoch)}
}
