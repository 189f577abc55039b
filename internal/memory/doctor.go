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
)

// Finding is the result of one check.
type Finding struct {
	Name string `json:"name"`
	OK   bool   `json:"ok"`
	// Note marks a suggestion. OK is true.
	Note   bool   `json:"note,omitempty"`
	Detail string `json:"detail"`
	Fix    string `json:"fix,omitempty"` // what to do
	// repair applies the fix; nil if that requires a decision.
	repair func(context.Context) error
	// Repaired means that repair succeeded.
	Repaired bool `json:"repaired,omitempty"`
}

// Doctor checks everything that push and pull rely on, and what an interrupted push or
// pull may have left. With repair it fixes what requires no decision.
func (p *Project) Doctor(ctx context.Context, repair bool) []Finding {
	found := []Finding{p.checkBucket(ctx)}
	local, here := p.checkLocal(ctx)
	found = append(found, local, p.checkLeftovers())
	if found[0].OK {
		// Check the lock first: other repairs need it.
		stored, m := p.checkRemote(ctx)
		found = append(found, p.checkLock(ctx), stored, p.checkVersions(ctx), p.checkPull(here, m), p.checkLease(ctx))
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

// repairCommand returns the command that repairs what requires no decision.
func (p *Project) repairCommand() string { return command(p.Project, "doctor") + " --repair" }

func (p *Project) checkBucket(ctx context.Context) Finding {
	const name = "object storage"
	if err := p.Bucket.Probe(ctx); err != nil {
		return bad(name, err, "check MINIO_ENDPOINT, the keys, and that the storage is running")
	}
	return Finding{Name: name, OK: true, Detail: "bucket " + p.Bucket.Name() + " supports reads, conditional writes and deletes"}
}

// checkLocal also returns the local database, nil if it cannot be read.
func (p *Project) checkLocal(ctx context.Context) (Finding, *local) {
	const name = "local database"
	there, err := p.readLocal(ctx)
	if err != nil {
		return bad(name, err, "check that "+p.DB+" can be read, and that nothing keeps it locked"), nil
	}
	there.remove()
	switch {
	case !there.exists:
		return Finding{Name: name, OK: true, Detail: "there is none at " + p.DB + ": the first pull creates it"}, there
	case there.damage != nil:
		return bad(name, there.damage, "pull: the damaged file is kept in "+p.BackupFolder()), nil
	}
	return Finding{Name: name, OK: true, Detail: fmt.Sprintf("sound, %d observations, SHA-256 %.12s", there.Observations, there.SHA256)}, there
}

// checkPull detects a pull that was killed between its safety backup and the replacement.
func (p *Project) checkPull(here *local, stored *Manifest) Finding {
	const name = "last pull"
	folders, err := p.Backups()
	if err != nil {
		return bad(name, err, "check that "+p.BackupFolder()+" can be read")
	}
	if len(folders) == 0 {
		return Finding{Name: name, OK: true, Detail: "no pull has overwritten anything"}
	}
	last := folders[len(folders)-1]
	var about BackupManifest
	text, err := os.ReadFile(filepath.Join(last, "manifest.json"))
	if err == nil {
		err = json.Unmarshal(text, &about)
	}
	switch {
	case err != nil:
		return Finding{Name: name, OK: true, Detail: last + " is the backup of another tool"}
	case here != nil && stored != nil && about.RemoteSHA == stored.SHA256 && here.SHA256 != stored.SHA256 && p.syncedSHA() != stored.SHA256:
		return Finding{Name: name, Detail: "a pull was killed after its safety backup (" + last + "); the database is intact, with either its previous content or the new one, and what was written since",
			Fix: "to repeat it: " + command(p.Project, "pull")}
	}
	return Finding{Name: name, OK: true, Detail: fmt.Sprintf("its backup is one of %d in %s", len(folders), p.BackupFolder())}
}

// checkLeftovers finds temporary files of a push or pull that was killed.
func (p *Project) checkLeftovers() Finding {
	const name = "leftovers"
	old := p.leftovers(p.abandoned)
	var kinds []string
	for _, path := range old {
		switch base := filepath.Base(path); {
		case strings.HasPrefix(base, incompletePrefix):
			kinds = append(kinds, "an incomplete safety backup "+base)
		case strings.Contains(base, "-pull-"):
			kinds = append(kinds, "a download "+base)
		default:
			kinds = append(kinds, "a snapshot "+base)
		}
	}
	if len(old) == 0 {
		return Finding{Name: name, OK: true, Detail: "none"}
	}
	return Finding{Name: name, Detail: "a push or pull was killed and left " + strings.Join(kinds, ", ") + "; the database is not affected",
		Fix: "to remove it: " + p.repairCommand(), repair: func(context.Context) error {
			var errs error
			for _, path := range old {
				errs = errors.Join(errs, os.RemoveAll(path))
			}
			return errs
		}}
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
	if p.left(l) {
		return Finding{Name: name, Detail: fmt.Sprintf("left by a push of %s that began %s ago and was killed", l.Holder, age.Round(time.Second)),
			Fix: "the next push takes it over; to release it now: " + p.repairCommand(), repair: p.underLock(func(context.Context) error { return nil })}
	}
	return Finding{Name: name, Detail: fmt.Sprintf("held by %s for %s", l.Holder, age.Round(time.Second)),
		Fix: fmt.Sprintf("wait for its push; if that was killed, the lock expires in %s, or push with --force", (p.LockTTL + p.LockGrace - age).Round(time.Second))}
}

func (p *Project) checkLease(ctx context.Context) Finding {
	const name = "leadership"
	l, ok, err := p.Leadership(ctx)
	switch {
	case err != nil:
		return bad(name, err, "select the primary again: "+command(p.Project, "leadership")+" --select NODE")
	case !ok:
		return Finding{Name: name, OK: true, Detail: "no node is primary yet: the first push decides"}
	case l.NeedsSelection:
		return Finding{Name: name, OK: true, Note: true, Detail: l.PrimaryNode + " is primary because it asked first; nobody chose it",
			Fix: "to confirm it: " + selectCommand(p.Project, l.PrimaryNode)}
	case l.Expired(p.Now()):
		return Finding{Name: name, OK: true, Detail: fmt.Sprintf("%s is primary (epoch %d); its lease has expired, and its next push renews it", l.PrimaryNode, l.Epoch)}
	}
	return Finding{Name: name, OK: true, Detail: fmt.Sprintf("%s is primary (epoch %d)", l.PrimaryNode, l.Epoch)}
}
