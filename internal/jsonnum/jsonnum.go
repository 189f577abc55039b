// Package jsonnum decodes JSON from clients in all languages: it accepts 120.0 and 1.2e2 as the
// integer 120, as JavaScript and Python may write it, and bounds its nesting and its values.
package jsonnum

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
)

// maxExact is the limit up to which float64 represents every integer.
const maxExact = 1 << 53

// Unmarshal is json.Unmarshal that accepts integral numbers in any notation as integers.
func Unmarshal(data []byte, v any) error { return json.Unmarshal(integers(data), v) }

// integers rewrites integral numbers in other notations. Invalid JSON stays unchanged.
func integers(data []byte) []byte {
	if !bytes.ContainsAny(data, ".eE") {
		return data
	}
	out := make([]byte, 0, len(data))
	for i := 0; i < len(data); {
		end := i + 1
		switch c := data[i]; {
		case c == '"':
			end = stringEnd(data, i)
			out = append(out, data[i:end]...)
		case c == '-' || c >= '0' && c <= '9':
			for end < len(data) && bytes.IndexByte([]byte("0123456789+-.eE"), data[end]) >= 0 {
				end++
			}
			out = append(out, integer(data[i:end])...)
		default:
			out = append(out, c)
		}
		i = end
	}
	return out
}

func integer(number []byte) []byte {
	if !bytes.ContainsAny(number, ".eE") || !json.Valid(number) {
		return number
	}
	f, err := strconv.ParseFloat(string(number), 64)
	if err != nil || f != math.Trunc(f) || math.Abs(f) > maxExact {
		return number
	}
	return strconv.AppendInt(nil, int64(f), 10)
}

// stringEnd returns the end of the string that starts at i.
func stringEnd(data []byte, i int) int {
	for i++; i < len(data); i += 2 {
		next := bytes.IndexAny(data[i:], `"\`)
		if next < 0 {
			break
		}
		if i += next; data[i] == '"' {
			return i + 1
		}
	}
	return len(data)
}

// Limits of a request's JSON. Decoded, an empty object takes a hundred times its two bytes.
const (
	MaxDepth  = 64
	MaxValues = 20_000
)

// Exceeds reports whether data nests deeper than MaxDepth or has more than MaxValues values. It
// counts punctuation outside of strings and does not validate the JSON.
func Exceeds(data []byte) bool {
	depth, values := 0, 1
	for i := 0; i < len(data); i++ {
		switch data[i] {
		case '"':
			i = stringEnd(data, i) - 1
		case ',':
			values++
		case '{', '[':
			values++
			depth++
		case '}', ']':
			depth--
		}
		if depth > MaxDepth || values > MaxValues {
			return true
		}
	}
	return false
}
