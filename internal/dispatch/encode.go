package dispatch

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/bloom-runtime/bloom"
)

// completionHash is jsonHash of a completion, without the whole encoding of a long
// output in memory.
func completionHash(c bloom.Completion) string {
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
	return EncodeFrom(w, strings.NewReader(text), with)
}

// EncodeFrom is EncodeLong with the text from a reader.
func EncodeFrom(w io.Writer, text io.Reader, with func(text *string) any) error {
	mark := rand.Text()
	before, after, _ := bytes.Cut(encodeJSON(with(&mark)), []byte(mark))
	if _, err := w.Write(before); err != nil {
		return err
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	part, kept := make([]byte, outputChunk), 0
	for ended := false; !ended; {
		n, err := io.ReadFull(text, part[kept:])
		ended = errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		if err != nil && !ended {
			return err
		}
		n += kept
		whole := n
		if !ended {
			whole -= incomplete(part[:n])
		}
		b.Reset()
		if err := enc.Encode(string(part[:whole])); err != nil {
			return err
		}
		if _, err := w.Write(b.Bytes()[1 : b.Len()-2]); err != nil { // without the quotes and the newline
			return err
		}
		kept = copy(part, part[whole:n])
	}
	_, err := w.Write(after)
	return err
}

// incomplete returns the length of a character at the end of which bytes are missing.
func incomplete(text []byte) int {
	for i := 1; i < utf8.UTFMax && i <= len(text); i++ {
		if last := text[len(text)-i:]; utf8.RuneStart(last[0]) {
			if utf8.FullRune(last) {
				return 0
			}
			return i
		}
	}
	return 0
}
