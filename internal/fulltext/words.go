// Package fulltext splits texts into words, parses search queries, and extracts snippets. Both
// databases index the words of this package, so that a search has the same results in each.
package fulltext

import (
	"iter"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// maxWord is the significant length of a word, in bytes; longer words with the same beginning are
// equal.
const maxWord = 128

// Word is one word of a text.
type Word struct {
	Text       string // in lower case and composed form (NFC)
	Start, End int    // its position in the text, in bytes
}

// Words returns the words of a text: runs of letters, marks and digits. In scripts without spaces
// each character is a word, so that a query finds any part of a run.
func Words(text string) iter.Seq[Word] {
	return func(yield func(Word) bool) {
		start := -1
		for i, r := range text {
			if inWord(r) && !alone(r) {
				if start < 0 {
					start = i
				}
				continue
			}
			if start >= 0 && !yield(Word{fold(text[start:i]), start, i}) {
				return
			}
			start = -1
			if end := i + utf8.RuneLen(r); inWord(r) && !yield(Word{text[i:end], i, end}) {
				return
			}
		}
		if start >= 0 {
			yield(Word{fold(text[start:]), start, len(text)})
		}
	}
}

func inWord(r rune) bool {
	if r < utf8.RuneSelf {
		return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
	}
	return r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r))
}

// alone reports whether a character is a word on its own.
func alone(r rune) bool {
	return r >= 0x0e00 && unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar)
}

func fold(word string) string {
	word = norm.NFC.String(strings.ToLower(word))
	if len(word) > maxWord {
		word = strings.ToValidUTF8(word[:maxWord], "")
	}
	return word
}

// Join returns a text's words separated by spaces.
func Join(text string) string {
	var b strings.Builder
	b.Grow(len(text))
	for w := range Words(text) {
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(w.Text)
	}
	return b.String()
}
