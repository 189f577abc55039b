package memory

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/bloom-runtime/bloom/internal/objects"
)

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
// may still be pulling. It requires the lock.
func (p *Project) sweepVersions(ctx context.Context) error {
	m, _, err := p.remote(ctx)
	if err != nil || m == nil {
		return err
	}
	old, err := p.orphans(ctx, m)
	p.remove(ctx, old)
	return err
}

func (p *Project) remove(ctx context.Context, old []objects.Info) {
	for _, object := range old {
		_ = p.Bucket.Remove(ctx, object.Key) // the next time tries again
	}
}

// orphans returns the stored versions that m does not name. m may be nil.
func (p *Project) orphans(ctx context.Context, m *Manifest) (old []objects.Info, err error) {
	kept := map[string]bool{}
	if m != nil {
		kept[p.source(m)] = true
		kept[p.key("sqlite", m.Previous)] = m.Previous != ""
	}
	for object, err := range p.Bucket.List(ctx, p.key("sqlite", "versions")+"/") {
		if err != nil {
			return nil, err
		}
		if !kept[object.Key] {
			old = append(old, object)
		}
	}
	return old, nil
}
