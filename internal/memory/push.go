package memory

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/bloom-runtime/bloom/internal/objects"
)

// NotPrimaryError means that this node is secondary and may not push.
type NotPrimaryError struct{ Project, Node, Primary string }

func (e *NotPrimaryError) Error() string {
	return fmt.Sprintf("%s is secondary: only %s, the primary, pushes. Make this node primary (%s, or Membridge in the web application), or pull",
		e.Node, e.Primary, selectCommand(e.Project, e.Node))
}

// selectCommand returns the command that makes a node a project's primary.
func selectCommand(project, node string) string {
	return command(project, "leadership") + " --select " + Quote(node)
}

// command returns a memory command for a project. It has the project's name, because the
// default is that of the current folder.
func command(project, name string) string {
	return "bloom memory " + name + " --project " + Quote(project)
}

// Quote quotes s as one word of a shell command.
func Quote(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/._-+:@%", r)
	}
	if strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// Pushed is the result of a push.
type Pushed struct {
	Manifest

	// Unchanged means that the storage already had that content.
	Unchanged bool `json:"unchanged"`
}

// Push uploads a consistent snapshot of the database, while others may write to it. It
// fails with a *NotPrimaryError on a secondary, and with a *LockedError while another push
// is running. An interrupted push leaves the stored memory unchanged; the next push cleans
// up.
func (p *Project) Push(ctx context.Context) (Pushed, error) {
	if err := p.Bucket.Ensure(ctx); err != nil {
		return Pushed{}, err
	}
	if err := p.mayPush(ctx); err != nil {
		return Pushed{}, err
	}
	if _, err := os.Stat(p.DB); errors.Is(err, fs.ErrNotExist) {
		return Pushed{}, fmt.Errorf("there is no database at %s: set CLAUDE_MEM_DB or --db, or pull first", p.DB)
	}
	// Before the snapshot: what is pushed from now on may be newer than it.
	before, etag, err := p.remote(ctx)
	if err != nil && !errors.Is(err, errUnreadable) {
		return Pushed{}, err
	}
	p.Progress("taking a snapshot of " + p.DB)
	if err := rollBack(ctx, p.DB); err != nil {
		return Pushed{}, err
	}
	local, err := p.snapshot(ctx)
	if err != nil {
		return Pushed{}, err
	}
	defer local.remove()
	if same, err := p.stores(ctx, before, local.SHA256); err != nil {
		return Pushed{}, err
	} else if same {
		p.saveSynced(before.SHA256)
		return Pushed{Manifest: *before, Unchanged: true}, nil
	}
	p.Progress("taking the lock")
	release, err := p.acquire(ctx)
	if err != nil {
		return Pushed{}, err
	}
	m, err := p.send(ctx, local, before, etag)
	return Pushed{Manifest: m}, errors.Join(err, release(context.WithoutCancel(ctx)))
}

// stores reports whether the storage has the content sha, as m says, which may be nil.
func (p *Project) stores(ctx context.Context, m *Manifest, sha string) (bool, error) {
	if m == nil || m.SHA256 != sha {
		return false, nil
	}
	info, err := p.Bucket.Stat(ctx, p.source(m))
	if errors.Is(err, objects.ErrNotFound) {
		return false, nil
	}
	return m.Size <= 0 || info.Size == m.Size, err
}

func (p *Project) mayPush(ctx context.Context) error {
	if p.IgnoreLeadership {
		return nil
	}
	role, lease, err := p.Role(ctx)
	if err == nil && role != Primary && !p.SecondaryMayPush {
		err = &NotPrimaryError{Project: p.Project, Node: p.Node, Primary: lease.PrimaryNode}
	}
	return err
}

// ErrOvertaken means that the stored memory was replaced during a push.
var ErrOvertaken = errors.New("another push has replaced the stored memory in the meantime. Pull, or push again if this node's memory is the right one")

// send uploads the snapshot under the lock. The stored memory changes only in the last
// step, with the manifest, and only if it is still the one before, with that etag.
func (p *Project) send(ctx context.Context, local *Snapshot, before *Manifest, etag string) (Manifest, error) {
	if _, now, err := p.remote(ctx); err != nil && !errors.Is(err, errUnreadable) {
		return Manifest{}, err
	} else if now != etag {
		return Manifest{}, ErrOvertaken
	}
	version := p.versionKey(local.SHA256)
	p.Progress(fmt.Sprintf("uploading %d bytes", local.Size))
	if err := p.upload(ctx, local, version); err != nil {
		return Manifest{}, err
	}
	p.Progress("verifying the upload")
	if err := p.verify(ctx, version, local.SHA256); err != nil {
		return Manifest{}, err
	}
	p.Point("uploaded")
	etagOfPlain, err := p.publish(ctx, version, local.SHA256)
	if err != nil {
		return Manifest{}, err
	}
	p.Point("published, manifest not written")
	m := Manifest{
		Project: p.Project, CanonicalID: p.id, Timestamp: p.Now().UTC(), SourceHost: p.Node, Size: local.Size, SHA256: local.SHA256,
		Observations: local.Observations, Summaries: local.Summaries, Prompts: local.Prompts, Tables: local.Tables,
		Version: "versions/" + local.SHA256 + ".db", PlainETag: etagOfPlain,
	}
	switch {
	case before != nil && before.Version == m.Version: // uploaded again, because it was missing
		m.Previous = before.Previous
	case before != nil:
		m.Previous = before.Version
	}
	if m.Epoch, err = p.stillPrimary(ctx); err != nil {
		return Manifest{}, err
	}
	return m, p.replaceManifest(ctx, &m, etag)
}

// replaceManifest makes m the stored memory, and removes old versions.
func (p *Project) replaceManifest(ctx context.Context, m *Manifest, etag string) error {
	// List them before: afterwards, there may be uploads of the next push.
	old, _ := p.orphans(ctx, m) // the next push removes what cannot be listed
	if err := p.savePublishing(m.SHA256); err != nil {
		return err
	}
	p.Point("push recorded, manifest not written")
	_, err := p.swapJSON(ctx, p.key("sqlite", "manifest.json"), m, etag)
	if errors.Is(err, objects.ErrConflict) {
		return ErrOvertaken
	}
	if err != nil {
		return fmt.Errorf("write the manifest: %w", err)
	}
	p.Point("manifest written")
	p.saveSynced(m.SHA256)
	p.remove(ctx, old)
	// The parts of an upload that was killed are in no list of objects.
	_ = p.Bucket.AbortUploads(ctx, p.key("sqlite", "versions")+"/", p.Now().Add(-p.LockTTL-p.LockGrace))
	p.Point("old versions removed")
	return nil
}

// stillPrimary fails if another node was selected during the upload, and returns the epoch.
// The same node may have been selected again.
func (p *Project) stillPrimary(ctx context.Context) (epoch int64, err error) {
	if p.IgnoreLeadership {
		return 0, nil
	}
	now, _, err := p.Leadership(ctx)
	if err == nil && now.PrimaryNode != p.Node && !p.SecondaryMayPush {
		err = &NotPrimaryError{Project: p.Project, Node: p.Node, Primary: now.PrimaryNode}
	}
	return now.Epoch, err
}
