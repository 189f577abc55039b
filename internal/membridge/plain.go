package membridge

import (
	"regexp"
	"strconv"
	"strings"
)

// plainWords are our words for what huma's validation says of a value. %s is what
// follows the library's words.
var plainWords = []struct{ theirs, ours string }{
	{"expected number >= ", "must be at least %s"},
	{"expected number <= ", "must be at most %s"},
	{"expected length >= 1", "must not be empty"},
	{"expected length >= ", "must have at least %s characters"},
	{"expected length <= ", "must have at most %s characters"},
	{"expected array length <= ", "must have at most %s entries"},
	{"expected required property ", "%s must be given"},
	{"expected value to be one of ", "must be one of %s"},
	{"expected string", "must be a string"},
	{"expected boolean", "must be true or false"},
	{"expected integer", "must be a whole number"},
	{"expected number", "must be a number"},
	{"expected array", "must be an array"},
	{"expected object", "must be an object"},
	{"invalid integer", "must be a whole number"},
	{"invalid float", "must be a number"},
	{"request body is required", "the body must be a JSON object"},
	{"unexpected end of JSON input", "the body is not valid JSON: it ends too early"},
	{"invalid character ", "the body is not valid JSON"},
	{"unknown content type", "the body must be JSON: send Content-Type: application/json"},
}

// misfit is the decoder's word on a value that the checks before it let pass: a
// number that is too large for its field.
var misfit = regexp.MustCompile(`^json: cannot unmarshal .* into Go struct field (?:[\w]*\.)*(\w+) of type`)

// plain is a sentence of huma's in our words.
func plain(theirs string) string {
	if m := misfit.FindStringSubmatch(theirs); m != nil {
		return m[1] + ": must be a value of a size that can be kept"
	}
	for _, w := range plainWords {
		rest, ok := strings.CutPrefix(theirs, w.theirs)
		switch {
		case !ok:
		case strings.Contains(w.ours, "%s"):
			return strings.Replace(w.ours, "%s", plainValue(rest), 1)
		default:
			return w.ours
		}
	}
	return theirs
}

// plainValue is a number as people write it, or a list without its quotes.
func plainValue(v string) string {
	v = strings.Trim(strings.TrimSuffix(v, " to be present"), `"`)
	if n, err := strconv.ParseFloat(v, 64); err == nil {
		return strconv.FormatFloat(n, 'f', -1, 64)
	}
	return v
}
