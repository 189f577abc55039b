package bloom

import (
	"strings"
	"unicode/utf8"
)

// CleanText replaces what a store cannot keep, NUL and invalid UTF-8, by U+FFFD.
// It is applied before anything is hashed or stored, so that both stores keep
// the same thing and poison input cannot block a completion.
func CleanText(s string) string {
	if !strings.ContainsRune(s, 0) && utf8.ValidString(s) {
		return s
	}
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// cutTo is the beginning of s that fits into n bytes, at a character's boundary.
func cutTo(s string, n int) (short string, cut bool) {
	if len(s) <= n {
		return s, false
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return strings.Clone(s[:n]), true // a slice would keep the whole text in memory
}
