package fulltext

import (
	"math/bits"
	"slices"
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

// Snippet returns the part of a text with most of the query's terms, and how many it has; 0 means
// no match. It needs memory for only as many words as the longest term has.
func (q Query) Snippet(text string) (parts []bloom.SnippetPart, most int) {
	found := q.matches(text)
	if len(found) == 0 {
		return nil, 0
	}
	best := 0
	for i := range found {
		if n := termsShown(found[i:]); n > most {
			best, most = i, n
		}
	}
	return cut(text, found[best:]), most
}

// termsShown returns how many terms a snippet that starts at the first match would show.
func termsShown(found []match) int {
	var terms uint32 // a bit for each: there are at most maxTerms
	for _, m := range found {
		if m.end > found[0].start+length-lead {
			break
		}
		terms |= 1 << m.term
	}
	return bits.OnesCount32(terms)
}

// maxMatches bounds the matches of a text that are compared.
const maxMatches = 200

// matches returns the matches, up to the end of the first part that has all terms.
func (q Query) matches(text string) (found []match) {
	longest := 0
	for _, t := range q.Terms {
		longest = max(longest, len(t.Words))
	}
	enough := len(text) + 1 // where the search can stop
	first := 0              // the first match that fits into a snippet with the next one
	look := func(window []Word) (passed int) {
		for n, t := range q.Terms {
			if long := t.at(window, 0); long > 0 {
				found = append(found, match{window[0].Start, window[long-1].End, n})
				for found[len(found)-1].end > found[first].start+length-lead && first < len(found)-1 {
					first++
				}
				if enough > len(text) && termsShown(found[first:]) == len(q.Terms) {
					enough = found[first].start + 2*length
				}
				return long
			}
		}
		return 1
	}
	window := make([]Word, 0, longest)
	for w := range Words(text) {
		if w.Start >= enough || len(found) >= maxMatches {
			return found
		}
		if window = append(window, w); len(window) == longest {
			window = slices.Delete(window, 0, look(window))
		}
	}
	for len(window) > 0 && len(found) < maxMatches {
		window = slices.Delete(window, 0, look(window))
	}
	return found
}

// cut returns the text around the matches, starting before the first one.
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

// boundary moves an index back to the start of a character.
func boundary(text string, i int) int {
	for i > 0 && i < len(text) && !utf8.RuneStart(text[i]) {
		i--
	}
	return i
}

// clean replaces line breaks and other control characters with single spaces.
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
