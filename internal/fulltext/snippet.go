package fulltext

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/bloom-runtime/bloom"
)

// Length of a snippet, in bytes: before its first match, and in all.
const (
	lead   = 60
	length = 240
)

type match struct{ start, end, term int }

// Snippet is the part of a text in which most of the query's terms are found, and how
// many those are; 0: none is found.
func (q Query) Snippet(text string) (parts []bloom.SnippetPart, most int) {
	found := q.matches(text)
	if len(found) == 0 {
		return nil, 0
	}
	best := 0
	for i := range found {
		terms := map[int]bool{}
		for _, m := range found[i:] {
			if m.end > found[i].start+length-lead {
				break
			}
			terms[m.term] = true
		}
		if len(terms) > most {
			best, most = i, len(terms)
		}
	}
	return cut(text, found[best:]), most
}

// maxMatches bounds how many places of a text are compared.
const maxMatches = 200

func (q Query) matches(text string) (found []match) {
	var words []Word
	for w := range Words(text) {
		words = append(words, w)
	}
	for i := 0; i < len(words) && len(found) < maxMatches; i++ {
		for n, t := range q.Terms {
			if long := t.at(words, i); long > 0 {
				found = append(found, match{words[i].Start, words[i+long-1].End, n})
				i += long - 1
				break
			}
		}
	}
	return found
}

// cut is the text around the matches, the first of which it shows.
func cut(text string, found []match) (parts []bloom.SnippetPart) {
	from := boundary(text, max(0, found[0].start-lead))
	to := boundary(text, min(len(text), max(from+length, min(found[0].end, from+2*length))))
	add := func(s string, matched bool) {
		if s = clean(s); s != "" {
			parts = append(parts, bloom.SnippetPart{Text: s, Match: matched})
		}
	}
	head := ""
	if from > 0 {
		head = "…"
	}
	at := from
	for _, m := range found {
		if m.start >= to {
			break
		}
		end := min(m.end, to)
		add(head+text[at:m.start], false)
		add(text[m.start:end], true)
		at, head = end, ""
	}
	tail := text[at:to]
	if to < len(text) {
		tail += "…"
	}
	add(tail, false)
	return parts
}

// boundary moves a place back to the beginning of a character.
func boundary(text string, i int) int {
	for i > 0 && i < len(text) && !utf8.RuneStart(text[i]) {
		i--
	}
	return i
}

// clean writes line breaks and other control characters as single spaces.
func clean(s string) string {
	var b strings.Builder
	space := false
	for _, r := range s {
		if unicode.IsSpace(r) || unicode.IsControl(r) {
			if !space {
				b.WriteByte(' ')
			}
			space = true
			continue
		}
		space = false
		b.WriteRune(r)
	}
	return b.String()
}
