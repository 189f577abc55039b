package maintenance

import (
	"context"
	"fmt"
	"strings"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

// movePart moves a part of a context's transcript or working folder.
func (m *Mover) movePart(ctx context.Context, contextID string, p bloom.TranscriptPart) error {
	const prefix = "transcripts/" // which a bucket's name may have, too
	at, sum := strings.LastIndex(p.URL, prefix), contract.PartDigest(p.URL)
	if at < 0 || sum == "" {
		return fmt.Errorf("%q is not a part of a transcript", p.URL)
	}
	content, err := m.c.Blobs.Open(ctx, p.URL)
	if bloom.KindOf(err) == bloom.KindNotFound {
		return errElsewhere
	}
	if err != nil {
		return err
	}
	defer content.Close()
	key := p.URL[at : strings.LastIndex(p.URL, sum)+len(sum)]
	url, err := m.c.Upload(ctx, key+m.dateSuffix(), content, p.Size, sum)
	if err != nil {
		return err
	}
	switch err := m.c.Store.MovePart(ctx, contextID, p.URL, url); {
	case bloom.KindOf(err) == bloom.KindConflict:
		return errElsewhere // Orphans deletes the upload
	case err != nil:
		return err
	}
	m.discard(ctx, p.URL)
	return nil
}
