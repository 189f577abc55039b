package claude

import (
	"bytes"
	"io"

	"github.com/klauspost/compress/zstd"

	"github.com/bloom-runtime/bloom"
)

const (
	// partSize is the size of a part before compression, in bytes.
	partSize = 8 << 20
	// windowSize is the zstd window, which limits the memory for packing and unpacking.
	windowSize = 1 << 20
)

// partWriter sends what is written to it in compressed parts, each a zstd frame.
type partWriter struct {
	put    func(frame []byte) (bloom.TranscriptPart, error)
	packer *zstd.Encoder
	frame  bytes.Buffer
	in     int // uncompressed bytes in the current frame
	parts  []bloom.TranscriptPart
}

func newPartWriter(put func(frame []byte) (bloom.TranscriptPart, error)) (*partWriter, error) {
	packer, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(windowSize), zstd.WithEncoderLevel(zstd.SpeedFastest))
	w := &partWriter{put: put, packer: packer, parts: []bloom.TranscriptPart{}}
	if err == nil {
		packer.Reset(&w.frame)
	}
	return w, err
}

// Write sends each part that is full.
func (w *partWriter) Write(p []byte) (written int, err error) {
	for len(p) > 0 {
		n, err := w.packer.Write(p[:min(len(p), partSize-w.in)])
		written, w.in, p = written+n, w.in+n, p[n:]
		if err == nil && w.in == partSize {
			err = w.send()
		}
		if err != nil {
			return written, err
		}
	}
	return written, nil
}

func (w *partWriter) send() error {
	if err := w.packer.Close(); err != nil {
		return err
	}
	part, err := w.put(w.frame.Bytes())
	if err != nil {
		return err
	}
	w.parts, w.in = append(w.parts, part), 0
	w.frame.Reset()
	w.packer.Reset(&w.frame)
	return nil
}

// close sends the rest and returns all parts.
func (w *partWriter) close() ([]bloom.TranscriptPart, error) {
	if w.in > 0 {
		if err := w.send(); err != nil {
			return nil, err
		}
	}
	return w.parts, nil
}

// unpackParts decompresses the parts that a partWriter sent.
func unpackParts(frames io.Reader) (*zstd.Decoder, error) {
	return zstd.NewReader(frames, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(windowSize))
}
