package transcripts

import (
	"context"
	"encoding/hex"
	"errors"
	"io"
	"regexp"
	"strings"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/blob"
	"github.com/bloom-runtime/bloom/internal/content"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

// errNotTheLeases refuses parts that were not uploaded under the lease.
var errNotTheLeases = bloom.Invalid("The transcript's parts were not uploaded under this lease", bloom.FieldError{Field: "transcript.parts", Message: "must be the answers of uploads under this lease"})

// partPrefix is the prefix of the keys of a lease's uploads.
func partPrefix(contextID, leaseID string) string {
	return "transcripts/" + contract.TranscriptFolder(contextID) + "/" + leaseID + "-"
}

// checkPart refuses a part that cannot be the answer of an upload under the lease, and
// reports whether the upload is gone.
func (s *Store) checkPart(ctx context.Context, p bloom.TranscriptPart, prefix string) (gone bool, err error) {
	key, ours := partKey(p.URL, prefix)
	if p.Size <= 0 || p.Size > bloom.MaxTranscriptPart || !ours {
		return false, errNotTheLeases
	}
	// Only for a valid key: a storage might treat the request for another one as its own
	// failure, and would then count as unavailable for everybody.
	at, size, err := s.Content.Blobs.Stat(ctx, p.URL)
	switch {
	case at != key:
		return false, errNotTheLeases
	case bloom.KindOf(err) == bloom.KindNotFound || err == nil && size != p.Size:
		return true, nil
	case err != nil && !errors.Is(err, blob.ErrUnavailable): // an unavailable storage must not block the outcome
		return false, content.Trouble(err)
	}
	return false, nil
}

// beforeKey is what precedes the key in the URL of an upload: SCHEME: or SCHEME://BUCKET/, then the
// installation's area and the day, which uploads of earlier versions lack.
var beforeKey = regexp.MustCompile(`^[a-z0-9]+:(//[^/]+/)?((installations/[0-9a-f-]{36}/)?\d{8}/)?$`)

// partKey returns the key of a lease's upload from its URL.
func partKey(url, prefix string) (key string, ours bool) {
	const digest = 64
	if len(url) < len(prefix)+digest {
		return "", false
	}
	before, key := url[:len(url)-len(prefix)-digest], url[len(url)-len(prefix)-digest:]
	raw, err := hex.DecodeString(key[len(prefix):])
	return key, err == nil && len(raw) == digest/2 && key[:len(prefix)] == prefix && beforeKey.MatchString(before)
}

// Put stores a part of a context's transcript or working folder. It counts once a completion under
// the same lease names it; otherwise the sweep deletes it later.
func (s *Store) Put(ctx context.Context, contextID, leaseID string, body io.Reader, size int64, sum string) (bloom.TranscriptPart, error) {
	sum = strings.ToLower(sum)
	if raw, err := hex.DecodeString(sum); err != nil || len(raw) != 32 {
		return bloom.TranscriptPart{}, bloom.Invalid("The part's digest is wrong", bloom.FieldError{Field: "sha256", Message: "must be the SHA-256 of the body in hex"})
	}
	url, _, err := s.Content.Put(ctx, partPrefix(contextID, leaseID)+sum, body, size, sum)
	if err != nil {
		return bloom.TranscriptPart{}, err
	}
	return bloom.TranscriptPart{URL: url, Size: size}, nil
}

// open opens parts. It opens the first at once, so that the caller can report a
// missing part or an unavailable storage.
func (s *Store) open(ctx context.Context, list []bloom.TranscriptPart) (io.ReadCloser, error) {
	p := &parts{ctx: ctx, blobs: s.Content.Blobs, left: list}
	if len(list) == 0 {
		return p, nil
	}
	if err := p.next(); err != nil {
		return nil, err
	}
	return p, nil
}

// parts concatenates parts.
type parts struct {
	ctx   context.Context //nolint:containedctx // of the response that reads it
	blobs blob.Blobs
	left  []bloom.TranscriptPart
	now   io.ReadCloser
}

func (p *parts) Read(b []byte) (int, error) {
	for {
		if p.now == nil {
			if len(p.left) == 0 {
				return 0, io.EOF
			}
			if err := p.next(); err != nil {
				return 0, err
			}
		}
		n, err := p.now.Read(b)
		if !errors.Is(err, io.EOF) {
			return n, err
		}
		if err := p.Close(); err != nil || n > 0 {
			return n, err
		}
	}
}

// next opens the next part.
func (p *parts) next() error {
	now, err := p.blobs.Open(p.ctx, p.left[0].URL)
	if err != nil {
		return content.Trouble(err)
	}
	p.now, p.left = now, p.left[1:]
	return nil
}

func (p *parts) Close() error {
	if p.now == nil {
		return nil
	}
	err := p.now.Close()
	p.now = nil
	return err
}
