package cli

import (
	"bytes"
	"io"
	"regexp"
	"strings"
	"unicode/utf8"
)

// screen writes to a terminal. It replaces control characters, which also arrive in an artifact's
// content, in JSON and in exports, and leaves line breaks and the colours of this program.
type screen struct {
	w    io.Writer
	rest []byte // the beginning of a character that the next write completes
}

// colours are the sequences that paint writes.
var colours = regexp.MustCompile(`\x1b\[(?:[0-2]|3[1236])m`)

func (s *screen) Write(p []byte) (int, error) {
	in := append(s.rest, p...)
	whole := len(in) - incomplete(in)
	s.rest = bytes.Clone(in[whole:])
	in = in[:whole]
	var out strings.Builder
	last := 0
	for _, at := range colours.FindAllIndex(in, -1) {
		out.WriteString(clean(string(in[last:at[0]]), true))
		out.Write(in[at[0]:at[1]])
		last = at[1]
	}
	out.WriteString(clean(string(in[last:]), true))
	if _, err := io.WriteString(s.w, out.String()); err != nil {
		return 0, err
	}
	return len(p), nil
}

// incomplete returns the length of the incomplete character at the end of a text.
func incomplete(text []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		if end := text[len(text)-n:]; utf8.RuneStart(end[0]) {
			if utf8.FullRune(end) {
				return 0
			}
			return n
		}
	}
	return 0
}
