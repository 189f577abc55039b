package memory

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/bloom-runtime/bloom/internal/objects"
)

// checkRemote also returns the manifest, nil if there is no valid one.
func (p *Project) checkRemote(ctx context.Context) (Finding, *Manifest) {
	const name, pushAgain = "stored memory", "push again from the primary"
	m, _, err := p.remote(ctx)
	if err != nil {
		return bad(name, err, pushAgain), nil
	}
	if m == nil {
		return Finding{Name: name, OK: true, Detail: "nothing was pushed yet"}, nil
	}
	if err := p.verify(ctx, p.source(m), m.SHA256); err != nil {
		return bad(name, err, pushAgain), m
	}
	same, err := p.plainIs(ctx, m)
	if err != nil {
		return bad(name, err, pushAgain), m
	}
	if !same {
		return Finding{Name: name, Detail: "a push was killed before its last step; the previous memory is intact and is what other nodes pull, but tools that read claude-mem.db see another one",
			Fix: pushAgain + ", or restore the previous one: " + p.repairCommand(), repair: p.underLock(func(ctx context.Context) error {
				m, _, err := p.remote(ctx) // it may have changed since it was checked
				if err == nil && m != nil && m.Version != "" {
					_, err = p.publish(ctx, p.source(m), m.SHA256)
				}
				return err
			})}, m
	}
	return Finding{Name: name, OK: true, Detail: fmt.Sprintf("intact, %d observations, pushed by %s at %s", m.Observations, m.SourceHost, m.Timestamp.Format(time.RFC3339))}, m
}

// plainIs reports whether claude-mem.db and its SHA-256, which other tools read, match the
// manifest.
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

// checkVersions finds uploads of a push that was killed before it wrote its manifest, or
// before it removed old versions.
func (p *Project) checkVersions(ctx context.Context) Finding {
	const name = "uploads"
	if lock, held, err := p.Lock(ctx); err != nil || held && !p.left(lock) {
		return Finding{Name: name, OK: true, Detail: "not checked while a push is running"}
	}
	m, _, err := p.remote(ctx)
	if err != nil {
		return Finding{Name: name, OK: true, Detail: "not checked, because the manifest, which names the ones in use, cannot be read"}
	}
	old, err := p.orphans(ctx, m)
	if err != nil {
		return bad(name, err, "check that the storage can be listed")
	}
	n, size := len(old), int64(0)
	for _, object := range old {
		size += object.Size
	}
	if n == 0 {
		return Finding{Name: name, OK: true, Detail: "only the current version and the previous one"}
	}
	if m == nil { // the manifest may have been lost, and one of them may be the memory
		return Finding{Name: name, Detail: fmt.Sprintf("there are %d uploads (%d bytes), but no manifest", n, size), Fix: "the next push replaces them"}
	}
	return Finding{Name: name, Detail: fmt.Sprintf("a push was killed and left %d unused uploads (%d bytes)", n, size),
		Fix: "the next push removes them, or " + p.repairCommand(), repair: p.underLock(p.sweepVersions)}
}

// underLock returns a function that calls do while it holds the push lock.
func (p *Project) underLock(do func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		release, err := p.acquire(ctx)
		if err != nil {
			return err
		}
		return errors.Join(do(ctx), release(context.WithoutCancel(ctx)))
	}
}
