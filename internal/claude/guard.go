package claude

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/bloom-runtime/bloom"
)

// wordJoiner is invisible and of no width.
const wordJoiner = '\u2060'

// guardPrompt keeps a prompt a prompt. The command line gives two beginnings a
// meaning of their own: a text that begins with a slash runs one of its
// commands, and "@path" reads the file before any permission is asked, also
// outside the working folder. The first gets a line before it; the second
// invisible characters around the @, where the path leads, or may lead, outside.
func guardPrompt(prompt string) string {
	prompt = guardMentions(bloom.CleanText(prompt))
	if strings.HasPrefix(strings.TrimSpace(prompt), "/") {
		return "The task, as it was posted:\n\n" + prompt
	}
	return prompt
}

func guardMentions(text string) string {
	if !strings.Contains(text, "@") {
		return text
	}
	var b strings.Builder
	previous := ' ' // the beginning counts as a space
	for i, r := range text {
		// A mention begins after a space or a character outside ASCII; after
		// other ASCII it is part of a word, an address or code.
		if r == '@' && (unicode.IsSpace(previous) || previous >= utf8.RuneSelf) && leadsOutside(text[i+1:]) {
			// Before it, so that no mention begins; after it, so that the path
			// is another one even where a version sees a beginning.
			b.WriteRune(wordJoiner)
			b.WriteRune(r)
			b.WriteRune(wordJoiner)
		} else {
			b.WriteRune(r)
		}
		previous = r
	}
	return b.String()
}

// leadsOutside reports whether the path at the beginning of the text is
// absolute, quoted, or goes up.
func leadsOutside(path string) bool {
	if path == "" {
		return false
	}
	if strings.ContainsRune(`/~"'\`, rune(path[0])) {
		return true
	}
	end := strings.IndexFunc(path, unicode.IsSpace)
	if end < 0 {
		end = len(path)
	}
	// Bounded: a path is short, and a text of many @ must not cost its square.
	return strings.Contains(path[:min(end, 4096)], "..")
}
