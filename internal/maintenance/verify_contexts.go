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
	"github.com/bloom-runtime/bloom/internal/blob"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

// verifyWindow limits the memory for decompression, in bytes: twice the window that workers
// use.
const verifyWindow = 2 << 20

// verifyContexts verifies each part of the transcripts and working folders of all contexts,
// and their decompressed content.
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
			if w := t.Workspace; w != nil && w.SHA256 != "" { // without one there are only notes
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

// verifyParts reports the first part that is not as recorded, or that the decompressed
// content is not.
func (m *Mover) verifyParts(ctx context.Context, contextID, what string, parts []bloom.TranscriptPart, size int64, sum string, did *bloom.VerifyReport, report func(bloom.ContentDefect)) {
	r := &partsReader{ctx: ctx, blobs: m.c.Blobs, remaining: parts}
	defer r.close()
	kind, detail := r.examine(size, sum)
	did.Bytes += r.read
	if kind == "" || ctx.Err() != nil {
		return
	}
	now, err := m.c.Store.Transcript(ctx, contextID)
	if err == nil && (now == nil || !sameParts(*now, parts)) {
		return // moved, replaced or forgotten in the meantime
	}
	report(bloom.ContentDefect{Kind: kind, ContextID: contextID, URL: r.current.URL, Detail: what + ": " + detail})
}

// sameParts reports whether a transcript still has the parts.
func sameParts(t contract.Transcript, parts []bloom.TranscriptPart) bool {
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

// partsReader reads parts in sequence, and compares each with its size and checksum.
type partsReader struct {
	ctx       context.Context //nolint:containedctx // of one verification
	blobs     blob.Blobs
	remaining []bloom.TranscriptPart

	current bloom.TranscriptPart
	content io.ReadCloser
	sum     hash.Hash
	size    int64 // bytes read of the current part
	read    int64 // bytes read of all parts
	failed  error // the error of the last Read
}

// errPartDiffers means that a part is not as recorded.
var errPartDiffers = errors.New("a part differs from what was recorded")

// examine reads all parts; kind is empty if everything is as recorded.
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
		return ContentMissing, "the content does not exist"
	case r.failed != nil:
		return ContentUnchecked, r.failed.Error()
	case err != nil:
		return ContentDiffers, "it cannot be decompressed: " + err.Error()
	case n != size:
		return ContentDiffers, fmt.Sprintf("it has %d bytes instead of %d", n, size)
	case hex.EncodeToString(all.Sum(nil)) != sum:
		return ContentDiffers, "its SHA-256 differs from the recorded one"
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
			if len(r.remaining) == 0 {
				return 0, io.EOF
			}
			r.current, r.remaining = r.remaining[0], r.remaining[1:]
			content, err := r.blobs.Open(r.ctx, r.current.URL)
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

// next ends the current part.
func (r *partsReader) next() error {
	r.close()
	switch {
	case r.size != r.current.Size:
		return fmt.Errorf("%w: it has %d bytes instead of %d", errPartDiffers, r.size, r.current.Size)
	case hex.EncodeToString(r.sum.Sum(nil)) != contract.PartDigest(r.current.URL):
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
