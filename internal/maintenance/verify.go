package maintenance

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/bloom-runtime/bloom"
)

// Kinds of an artifact's defects.
const (
	ContentMissing   = "missing"   // the row names content that is not there
	ContentDiffers   = "differs"   // it is not what was recorded
	ContentOrphaned  = "orphaned"  // no artifact names it, and it is no upload under way
	ContentUnchecked = "unchecked" // it could not be read
)

// Verify reads everything that artifacts and contexts name and holds it against what was
// recorded, then looks for content that none names. tell hears of each defect as it is found, and
// of the progress with nil.
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
				report(bloom.ContentDefect{Kind: kind, ArtifactID: a.ID, TaskID: a.TaskID, URL: placeOf(a.URL), Detail: detail})
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
	for _, kind := range sweptKinds {
		if err := m.orphans(ctx, kind, named, report); err != nil {
			return did, err
		}
	}
	return did, nil
}

func placeOf(url *string) string {
	if url == nil {
		return ""
	}
	return *url
}

// examine reads one artifact's content whole; kind is empty when it is as recorded.
func (m *Mover) examine(ctx context.Context, a bloom.Artifact) (kind, detail string) {
	if a.URL == nil { // the list cut it
		full, err := m.c.Store.Artifact(ctx, a.ID)
		if bloom.KindOf(err) == bloom.KindNotFound {
			return "", "" // removed since
		}
		if err != nil {
			return ContentUnchecked, err.Error()
		}
		a = full
	}
	content, err := m.open(ctx, a)
	if err == errElsewhere { //nolint:errorlint // open gives it as it is
		if now, lost := m.c.Store.Artifact(ctx, a.ID); lost != nil || placeOf(now.URL) != placeOf(a.URL) {
			return "", "" // removed or moved since
		}
		return ContentMissing, "there is nothing at this place"
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
		return ContentDiffers, fmt.Sprintf("%d bytes, recorded were %d", size, a.Size)
	case hex.EncodeToString(hash.Sum(nil)) != a.SHA256:
		return ContentDiffers, "another SHA-256 than was recorded"
	}
	return "", ""
}

// orphans are reported once they are old enough to be swept: a younger one may be on
// its way to be named.
func (m *Mover) orphans(ctx context.Context, kind sweptKind, named map[string]bool, report func(bloom.ContentDefect)) error {
	found := map[string]time.Duration{}
	if err := m.c.Blobs.List(ctx, kind.prefix, func(url string, age time.Duration) error {
		if _, ours := kind.owner(url); ours && !named[url] && age >= OrphanAge {
			found[url] = age
		}
		return nil
	}); err != nil {
		return err
	}
	for _, url := range slices.Sorted(maps.Keys(found)) {
		d := bloom.ContentDefect{Kind: ContentOrphaned, URL: url, Detail: fmt.Sprintf("put %s ago; the sweep deletes it", found[url].Round(time.Hour))}
		if owner, _ := kind.owner(url); kind == sweptArtifacts {
			d.TaskID = strings.Clone(owner)
		}
		report(d)
	}
	return nil
}
