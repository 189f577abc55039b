package storable

import (
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// Text replaces NUL and invalid UTF-8, which a store cannot keep, with U+FFFD. It is applied
// before anything is hashed or stored, so that both stores keep the same text and malformed input
// cannot block a completion.
func Text(s string) string {
	if !strings.ContainsRune(s, 0) && utf8.ValidString(s) {
		return s
	}
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// Cut returns the longest prefix of s that fits into n bytes and ends between characters.
func Cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return strings.Clone(s[:n]) // a slice would keep the whole text in memory
}

// IsID reports whether s has the form of an id: a UUID in its canonical form. Nothing else is looked
// for in a store, because PostgreSQL refuses it.
func IsID(s string) bool {
	for i := range len(s) {
		switch dash, c := i == 8 || i == 13 || i == 18 || i == 23, s[i]; {
		case dash && c == '-', !dash && ('0' <= c && c <= '9' || 'a' <= c && c <= 'f'):
		default:
			return false
		}
	}
	return len(s) == 36
}

// MustJSON encodes a value whose encoding cannot fail.
func MustJSON(v any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return raw
}
