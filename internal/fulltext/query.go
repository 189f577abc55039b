package fulltext

import (
	"strings"
	"unicode"
)

// Bounds of a query; what goes beyond them is left out.
const (
	maxTerms = 16
	maxWords = 64
)

// Query is what a search asks for: a text has to contain every term.
type Query struct{ Terms []Term }

// Term is words that follow each other. With Prefix the last one is the beginning of
// a word.
type Term struct {
	Words  []string
	Prefix bool
}

// Parse reads a query: words, "phrases" in quotation marks, and beginnings of words
// with an asterisk (wor*). The last word is a beginning unless a space or a quotation
// mark ends it. Every text is a query; one without a letter or digit has no terms.
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
	if len(words) > 0 && len(q.Terms) < maxTerms {
		q.Terms = append(q.Terms, Term{words, prefix})
	}
}

// Empty reports whether the query asks for nothing.
func (q Query) Empty() bool { return len(q.Terms) == 0 }

// at is how many of the words from i on are the term, 0 when they are not.
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
