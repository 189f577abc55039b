package store

import (
	"encoding/hex"
	"encoding/json"
	"slices"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/schema"
	"github.com/bloom-runtime/bloom/internal/store/contract"
)

// text returns the text of a string or bytes column.
func text(src any) string {
	switch src := src.(type) {
	case string:
		return src
	case []byte:
		return string(src)
	}
	return ""
}

// List scans a JSON array of strings, never nil.
type List []string

// Scan implements sql.Scanner.
func (l *List) Scan(src any) error {
	*l = schema.ParseList(text(src))
	return nil
}

// globs scans a JSON array of strings, nil if it is empty.
type globs []string

// Scan implements sql.Scanner.
func (g *globs) Scan(src any) error {
	*g = nil
	if all := text(src); all != "" && all != "[]" {
		*g = schema.ParseList(all)
	}
	return nil
}

// object scans JSON into a value, which invalid JSON leaves unchanged.
type object struct{ into any }

// Scan implements sql.Scanner.
func (o *object) Scan(src any) error {
	_ = json.Unmarshal([]byte(text(src)), o.into)
	return nil
}

// snapshot scans a transcript's working folder.
type snapshot contract.Transcript

// Scan implements sql.Scanner.
func (s *snapshot) Scan(src any) error {
	s.Workspace = contract.ParseSnapshot(text(src))
	return nil
}

// verbatim scans JSON as it is stored.
type verbatim json.RawMessage

// Scan implements sql.Scanner.
func (v *verbatim) Scan(src any) error {
	switch src := src.(type) {
	case string:
		*v = verbatim(src)
	case []byte:
		*v = slices.Clone(src)
	}
	return nil
}

// nanos scans billionths of a dollar as dollars.
type nanos float64

// Scan implements sql.Scanner.
func (n *nanos) Scan(src any) error {
	v, _ := src.(int64)
	*n = nanos(bloom.Dollars(v))
	return nil
}

// Hash scans a hash as hexadecimal text, "" for NULL.
type Hash string

// Scan implements sql.Scanner.
func (h *Hash) Scan(src any) error {
	raw, _ := src.([]byte)
	*h = Hash(hex.EncodeToString(raw))
	return nil
}

// Unhex returns a hash as it is stored.
func Unhex(hash string) []byte {
	raw, _ := hex.DecodeString(hash)
	return raw
}
