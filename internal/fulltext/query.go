package fulltext

import (
	"slices"
	"strings"
	"unicode"
)

// Limits of a query; the rest is ignored.
const (
	maxTerms = 8
	maxWords = 16
)

// Query is a search query: a text matches if it contains every term.
type Query struct{ Terms []Term }

// Term is a sequence of words. With Prefix the last one is a prefix.
type Term struct {
	Words  []string
	Prefix bool
}

// Parse parses a query: words, "phrases" in quotation marks, and prefixes with an asterisk (wor*).
// The last word is a prefix unless a space or a quotation mark follows it. Every text is a valid
// query; one without letters and digits has no terms.
func Parse(text string) (q Query) {
	left := maxWords
	for i, part := range strings.Split(text, `"`) {
		if i%2 == 1 {
			q.add(part, false, &left)
			continue
		}
		chunks := strings.Fields(part)
		open := strings.TrimRightFunc(part, unicode.IsSpace) == part && strings.HasSuffix(text, part)
		for n, chunk := range chunks {
			last := open && n == len(chunks)-1 && i == strings.Count(text, `"`)
			q.add(chunk, last || strings.HasSuffix(chunk, "*"), &left)
		}
	}
	return q
}

func (q *Query) add(text string, prefix bool, left *int) {
	var words []string
	for w := range Words(text) {
		if *left == 0 {
			break
		}
		words, *left = append(words, w.Text), *left-1
	}
	repeated := slices.ContainsFunc(q.Terms, func(t Term) bool { return t.Prefix == prefix && slices.Equal(t.Words, words) })
	if len(words) > 0 && len(q.Terms) < maxTerms && !repeated {
		q.Terms = append(q.Terms, Term{words, prefix})
	}
}

// Empty reports whether the query has no terms.
func (q Query) Empty() bool { return len(q.Terms) == 0 }

// at returns how many words from i on match the term, 0 if they do not.
func (t Term) at(words []Word, i int) int {
	if i+len(t.Words) > len(words) {
		return 0
	}
	for n, want := range t.Words {
		is := words[i+n].Text
		if is != want && (!t.Prefix || n < len(t.Words)-1 || !strings.HasPrefix(is, want)) {
			return 0
		}
	}
	return len(t.Words)
}
