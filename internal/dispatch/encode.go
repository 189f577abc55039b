package dispatch

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"iter"
	"unicode/utf8"

	"github.com/bloom-runtime/bloom"
)

// completionHash is jsonHash of a completion, without the whole encoding of a long
// output in memory. It ignores the transcript's base, so that a completion that an
// earlier version accepted is recognized when it is repeated.
func completionHash(c bloom.Completion) string {
	if c.Transcript != nil {
		t := *c.Transcript
		t.Base, c.Transcript = nil, &t
	}
	if c.Output == nil {
		return jsonHash(c)
	}
	h, output := sha256.New(), *c.Output
	_ = EncodeLong(h, output, func(short *string) any {
		c.Output = short
		return c
	})
	return hex.EncodeToString(h.Sum(nil))
}

// outputChunk is how much of an output is encoded at once, in bytes.
const outputChunk = 64 << 10

// EncodeLong writes a value that contains a possibly long text as a line of JSON,
// without the whole encoding in memory. with returns the value with another text in
// its place.
func EncodeLong(w io.Writer, text string, with func(text *string) any) error {
	if len(text) <= outputChunk {
		_, err := w.Write(encodeJSON(with(&text)))
		return err
	}
	mark := rand.Text()
	before, after, _ := bytes.Cut(encodeJSON(with(&mark)), []byte(mark))
	if _, err := w.Write(before); err != nil {
		return err
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	for part := range chunks(text) {
		b.Reset()
		if err := enc.Encode(part); err != nil {
			return err
		}
		if _, err := w.Write(b.Bytes()[1 : b.Len()-2]); err != nil { // without the quotes and the newline
			return err
		}
	}
	_, err := w.Write(after)
	return err
}

// chunks splits a text at character boundaries.
func chunks(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for len(text) > 0 {
			n := min(outputChunk, len(text))
			for n < len(text) && !utf8.RuneStart(text[n]) {
				n--
			}
			if n == 0 {
				n = min(outputChunk, len(text)) // not UTF-8
			}
			if !yield(text[:n]) {
				return
			}
			text = text[n:]
		}
	}
}
