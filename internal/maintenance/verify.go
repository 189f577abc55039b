package maintenance

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/bloom-runtime/bloom"
)

// Kinds of defects.
const (
	ContentMissing   = "missing"   // the recorded content does not exist
	ContentDiffers   = "differs"   // the content has another size or checksum
	ContentOrphaned  = "orphaned"  // nothing refers to the content, and it is no current upload
	ContentUnchecked = "unchecked" // the content could not be read
)

// Verify reads the content of all artifacts and contexts, compares it with the recorded
// sizes and checksums, and looks for orphaned content. It calls tell with each defect, and
// with nil to report progress.
func (m *Mover) Verify(ctx context.Context, tell func(bloom.VerifyReport, *bloom.ContentDefect)) (did bloom.VerifyReport, err error) {
	named := map[string]bool{} // every URL, some 150 bytes each
	report := func(d bloom.ContentDefect) {
		did.Count(d)
		tell(did, &d)
	}
	q := bloom.ArtifactQuery{Page: bloom.Page{Limit: 100, TextBytes: 1}}
	for {
		list, next, err := m.c.Store.Artifacts(ctx, q)
		if err != nil {
			return did, err
		}
		for _, a := range list {
			if a.URL != nil {
				named[*a.URL] = true
			}
			kind, detail := m.examine(ctx, a)
			if ctx.Err() != nil {
				return did, ctx.Err()
			}
			if did.Examined, did.Bytes = did.Examined+1, did.Bytes+a.Size; kind != "" {
				report(bloom.ContentDefect{Kind: kind, ArtifactID: a.ID, TaskID: a.TaskID, URL: urlOf(a.URL), Detail: detail})
			}
		}
		tell(did, nil)
		if next == (bloom.Cursor{}) {
			break
		}
		q.Cursor = next
	}
	if err := m.verifyContexts(ctx, named, &did, report, func() { tell(did, nil) }); err != nil {
		return did, err
	}
	return did, m.orphans(ctx, named, report)
}

func urlOf(url *string) string {
	if url == nil {
		return ""
	}
	return *url
}

// examine reads one artifact's content; kind is empty if it is as recorded.
func (m *Mover) examine(ctx context.Context, a bloom.Artifact) (kind, detail string) {
	if a.URL == nil { // the list truncates it
		full, err := m.c.Store.Artifact(ctx, a.ID)
		if bloom.KindOf(err) == bloom.KindNotFound {
			return "", "" // removed in the meantime
		}
		if err != nil {
			return ContentUnchecked, err.Error()
		}
		a = full
	}
	content, err := m.open(ctx, a)
	if err == errElsewhere { //nolint:errorlint // open returns it unwrapped
		if now, lost := m.c.Store.Artifact(ctx, a.ID); lost != nil || urlOf(now.URL) != urlOf(a.URL) {
			return "", "" // removed or moved in the meantime
		}
		return ContentMissing, "the content does not exist"
	}
	if err != nil {
		return ContentUnchecked, err.Error()
	}
	defer content.Close()
	hash := sha256.New()
	size, err := io.Copy(hash, content)
	switch {
	case err != nil:
		return ContentUnchecked, err.Error()
	case size != a.Size:
		return ContentDiffers, fmt.Sprintf("it has %d bytes instead of %d", size, a.Size)
	case hex.EncodeToString(hash.Sum(nil)) != a.SHA256:
		return ContentDiffers, "its SHA-256 differs from the recorded one"
	}
	return "", ""
}

// orphans reports orphaned content that is old enough to be deleted. Younger content may
// belong to a pending completion.
func (m *Mover) orphans(ctx context.Context, named map[string]bool, report func(bloom.ContentDefect)) error {
	type upload struct {
		age  time.Duration
		task string
	}
	found := map[string]upload{}
	if err := m.c.Blobs.List(ctx, "", func(url, key string, age time.Duration) error {
		if kind, owner := ownerOf(key); kind != "" && !named[url] && age >= OrphanAge {
			if kind != artifactContent {
				owner = ""
			}
			found[url] = upload{age, owner}
		}
		return nil
	}); err != nil {
		return err
	}
	for _, url := range slices.Sorted(maps.Keys(found)) {
		report(bloom.ContentDefect{Kind: ContentOrphaned, TaskID: found[url].task, URL: url,
			Detail: fmt.Sprintf("uploaded %s ago; the server will delete it", found[url].age.Round(time.Hour))})
	}
	return nil
}
