package memory

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
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
	lease, err := p.mayPush(ctx)
	if err != nil {
		return Pushed{}, err
	}
	if _, err := os.Stat(p.DB); errors.Is(err, fs.ErrNotExist) {
		return Pushed{}, fmt.Errorf("there is no database at %s: set CLAUDE_MEM_DB or --db, or pull first", p.DB)
	}
	p.Progress("taking a snapshot of " + p.DB)
	if err := rollBack(ctx, p.DB); err != nil {
		return Pushed{}, err
	}
	local, err := snapshot(ctx, p.DB, p.Point)
	if err != nil {
		return Pushed{}, err
	}
	defer local.remove()
	if now, _, err := p.remote(ctx); err != nil && !errors.Is(err, errUnreadable) {
		return Pushed{}, err
	} else if now != nil && now.SHA256 == local.SHA256 {
		p.saveSynced(now.SHA256)
		return Pushed{Manifest: *now, Unchanged: true}, nil
	}
	p.Progress("taking the lock")
	release, err := p.acquire(ctx)
	if err != nil {
		return Pushed{}, err
	}
	m, err := p.send(ctx, local, lease)
	return Pushed{Manifest: m}, errors.Join(err, release(context.WithoutCancel(ctx)))
}

func (p *Project) mayPush(ctx context.Context) (Lease, error) {
	if p.IgnoreLeadership {
		return Lease{}, nil
	}
	role, lease, err := p.Role(ctx)
	if err != nil {
		return Lease{}, err
	}
	if role != Primary && !p.SecondaryMayPush {
		return Lease{}, &NotPrimaryError{Project: p.Project, Node: p.Node, Primary: lease.PrimaryNode}
	}
	return lease, nil
}

// send uploads the snapshot under the lock. The stored memory changes only in the last
// step, with the manifest.
func (p *Project) send(ctx context.Context, local *Snapshot, lease Lease) (Manifest, error) {
	// Read it again under the lock.
	before, etag, err := p.remote(ctx)
	if err != nil && !errors.Is(err, errUnreadable) {
		return Manifest{}, err
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
		Version: "versions/" + local.SHA256 + ".db", PlainETag: etagOfPlain, Epoch: lease.Epoch,
	}
	if before != nil {
		m.Previous = before.Version
	}
	if err := p.stillPrimary(ctx, lease); err != nil {
		return Manifest{}, err
	}
	if err := p.savePublishing(m.SHA256); err != nil {
		return Manifest{}, err
	}
	p.Point("push recorded, manifest not written")
	_, err = p.swapJSON(ctx, p.key("sqlite", "manifest.json"), m, etag)
	if errors.Is(err, objects.ErrConflict) {
		return Manifest{}, errors.New("another node has pushed in the meantime, and its memory is now the stored one. Pull, or push again if this node's memory is the right one")
	}
	if err != nil {
		return Manifest{}, fmt.Errorf("write the manifest: %w", err)
	}
	p.Point("manifest written")
	p.saveSynced(m.SHA256)
	p.sweepVersions(ctx, &m)
	p.Point("old versions removed")
	return m, nil
}

// stillPrimary fails if another node was selected during the upload.
func (p *Project) stillPrimary(ctx context.Context, lease Lease) error {
	if p.IgnoreLeadership || p.SecondaryMayPush {
		return nil
	}
	now, ok, err := p.Leadership(ctx)
	if err != nil {
		return err
	}
	if !ok || now.Epoch != lease.Epoch || now.PrimaryNode != p.Node {
		return &NotPrimaryError{Project: p.Project, Node: p.Node, Primary: now.PrimaryNode}
	}
	return nil
}

func (p *Project) upload(ctx context.Context, local *Snapshot, key string) error {
	f, err := os.Open(local.Path)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := p.Bucket.Upload(ctx, key, f, local.Size, "application/vnd.sqlite3"); err != nil {
		return fmt.Errorf("upload: %w", err)
	}
	return nil
}

// publish copies a version to the names that other tools read, and returns the ETag of
// claude-mem.db.
func (p *Project) publish(ctx context.Context, version, sha string) (etag string, err error) {
	plain := p.key("sqlite", "claude-mem.db")
	if err := p.Bucket.Copy(ctx, version, plain); err != nil {
		return "", fmt.Errorf("copy to claude-mem.db: %w", err)
	}
	p.Point("claude-mem.db copied, its SHA-256 not written")
	info, err := p.Bucket.Stat(ctx, plain)
	if err != nil {
		return "", fmt.Errorf("read the ETag of claude-mem.db: %w", err)
	}
	sum := sha + "  claude-mem.db\n"
	_, err = p.Bucket.Upload(ctx, p.key("sqlite", "claude-mem.db.sha256"), strings.NewReader(sum), int64(len(sum)), "text/plain")
	if err != nil {
		return "", fmt.Errorf("write the SHA-256: %w", err)
	}
	return info.ETag, nil
}

func (p *Project) verify(ctx context.Context, key, sha string) error {
	r, _, err := p.Bucket.Open(ctx, key)
	if err != nil {
		return fmt.Errorf("read back: %w", err)
	}
	defer r.Close()
	got, err := hashOf(r, io.Discard)
	if err != nil {
		return fmt.Errorf("read back: %w", err)
	}
	if got != sha {
		return fmt.Errorf("%s has another SHA-256 than was uploaded: the object storage is unreliable", key)
	}
	return nil
}

// sweepVersions removes all versions but the current one and the previous one, which a node
// may still be pulling.
func (p *Project) sweepVersions(ctx context.Context, m *Manifest) {
	for object, err := range p.orphans(ctx, m) {
		if err != nil {
			return // the next push sweeps again
		}
		_ = p.Bucket.Remove(ctx, object.Key)
	}
}

// orphans returns the stored versions that m does not name. m may be nil.
func (p *Project) orphans(ctx context.Context, m *Manifest) iter.Seq2[objects.Info, error] {
	kept := map[string]bool{}
	if m != nil {
		kept[p.source(m)] = true
		kept[p.key("sqlite", m.Previous)] = m.Previous != ""
	}
	return func(yield func(objects.Info, error) bool) {
		for object, err := range p.Bucket.List(ctx, p.key("sqlite", "versions")+"/") {
			if err == nil && kept[object.Key] {
				continue
			}
			if !yield(object, err) {
				return
			}
		}
	}
}
