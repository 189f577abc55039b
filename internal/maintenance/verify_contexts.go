package maintenance

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/klauspost/compress/zstd"

	"github.com/bloom-runtime/bloom"
)

// verifyWindow bounds the memory that decompressing takes, in bytes: twice what workers
// compress with.
const verifyWindow = 2 << 20

// verifyContexts reads the transcripts and working folders of all contexts, each part and
// what they are together.
func (m *Mover) verifyContexts(ctx context.Context, named map[string]bool, did *bloom.VerifyReport, report func(bloom.ContentDefect), tell func()) error {
	for after := ""; ; {
		list, err := m.c.Store.Transcripts(ctx, after, contextPage, false)
		if err != nil {
			return err
		}
		for _, t := range list {
			after = t.ContextID
			for _, url := range t.URLs() {
				named[url] = true
			}
			did.Contexts++
			if t.SessionID != "" {
				m.verifyParts(ctx, t.ContextID, "the transcript", t.Parts, t.Size, t.SHA256, did, report)
			}
			if w := t.Workspace; w != nil {
				m.verifyParts(ctx, t.ContextID, "the working folder", w.Parts, w.Size, w.SHA256, did, report)
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
		}
		if tell(); len(list) < contextPage {
			return nil
		}
	}
}

// verifyParts reports the first part that is not as recorded, or that all of them are
// not together what was recorded.
func (m *Mover) verifyParts(ctx context.Context, contextID, what string, parts []bloom.TranscriptPart, size int64, sum string, did *bloom.VerifyReport, report func(bloom.ContentDefect)) {
	r := &partsReader{ctx: ctx, blobs: m.c.Blobs, left: parts}
	defer r.close()
	kind, detail := r.examine(size, sum)
	did.Bytes += r.read
	if kind == "" || ctx.Err() != nil {
		return
	}
	now, err := m.c.Store.Transcript(ctx, contextID)
	if err == nil && (now == nil || !sameParts(*now, parts)) {
		return // moved, replaced or forgotten since
	}
	report(bloom.ContentDefect{Kind: kind, ContextID: contextID, URL: r.now.URL, Detail: what + ": " + detail})
}

// sameParts reports whether a transcript still has the parts.
func sameParts(t bloom.Transcript, parts []bloom.TranscriptPart) bool {
	has := map[string]bool{}
	for _, url := range t.URLs() {
		has[url] = true
	}
	for _, p := range parts {
		if !has[p.URL] {
			return false
		}
	}
	return true
}

// partsReader reads parts one after the other and holds each against its size and digest.
type partsReader struct {
	ctx   context.Context //nolint:containedctx // of one verification
	blobs bloom.Blobs
	left  []bloom.TranscriptPart

	now     bloom.TranscriptPart // the one being read
	content io.ReadCloser
	sum     hash.Hash
	size    int64 // read of it
	read    int64 // of all
	failed  error // why it could not be read on
}

// errPartDiffers says that a part is not what was recorded.
var errPartDiffers = errors.New("a part is not what was recorded")

// examine reads all; kind is empty when everything is as recorded.
func (r *partsReader) examine(size int64, sum string) (kind, detail string) {
	all, n := sha256.New(), int64(0)
	zip, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(verifyWindow))
	if err == nil {
		defer zip.Close()
		n, err = io.Copy(all, io.LimitReader(zip, size+1))
	}
	switch {
	case errors.Is(r.failed, errPartDiffers):
		return ContentDiffers, r.failed.Error()
	case r.failed != nil && bloom.KindOf(r.failed) == bloom.KindNotFound:
		return ContentMissing, "there is nothing at this place"
	case r.failed != nil:
		return ContentUnchecked, r.failed.Error()
	case err != nil:
		return ContentDiffers, "it cannot be decompressed: " + err.Error()
	case n != size:
		return ContentDiffers, fmt.Sprintf("%d bytes, recorded were %d", n, size)
	case hex.EncodeToString(all.Sum(nil)) != sum:
		return ContentDiffers, "another SHA-256 than was recorded"
	}
	return "", ""
}

// Read implements io.Reader.
func (r *partsReader) Read(p []byte) (n int, err error) {
	if n, err = r.readOn(p); err != nil && !errors.Is(err, io.EOF) {
		r.failed = err
	}
	return n, err
}

func (r *partsReader) readOn(p []byte) (int, error) {
	for {
		if r.content == nil {
			if len(r.left) == 0 {
				return 0, io.EOF
			}
			r.now, r.left = r.left[0], r.left[1:]
			content, err := r.blobs.Open(r.ctx, r.now.URL)
			if err != nil {
				return 0, err
			}
			r.content, r.sum, r.size = content, sha256.New(), 0
		}
		n, err := r.content.Read(p)
		r.sum.Write(p[:n])
		r.size, r.read = r.size+int64(n), r.read+int64(n)
		if errors.Is(err, io.EOF) {
			err = r.next()
		}
		if n > 0 || err != nil {
			return n, err
		}
	}
}

// next ends the present part.
func (r *partsReader) next() error {
	r.close()
	switch {
	case r.size != r.now.Size:
		return fmt.Errorf("%w: %d bytes, recorded were %d", errPartDiffers, r.size, r.now.Size)
	case hex.EncodeToString(r.sum.Sum(nil)) != bloom.PartDigest(r.now.URL):
		return fmt.Errorf("%w: another SHA-256", errPartDiffers)
	}
	return nil
}

func (r *partsReader) close() {
	if r.content != nil {
		_ = r.content.Close() // it was read
		r.content = nil
	}
}
