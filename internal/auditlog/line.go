// Package auditlog writes the audit to files that outlive the database, and verifies them. It
// defines the format of lines and the names of files. It knows no database; the rules of the chain
// are in the root package.
package auditlog

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/bloom-runtime/bloom"
	"github.com/bloom-runtime/bloom/internal/audit"
)

// A line is the entry's canonical JSON with two more members at its end: the previous entry's hash
// and its own. Both have a fixed length, so that the canonical JSON can be extracted from a line
// byte for byte.
const (
	prevMember = `,"prev":"`
	hashMember = `","hash":"`
	lineEnd    = `"}`
	hashLen    = 64
	tailLen    = len(prevMember) + hashLen + len(hashMember) + hashLen + len(lineEnd)
)

// Line is an entry in a file.
type Line struct {
	Entry bloom.Audit // with its Hash
	Prev  string      // hash of the previous entry
}

// AppendLine appends an entry and a line break.
func AppendLine(b []byte, l Line) []byte {
	canonical := audit.Canonical(l.Entry)
	b = append(b, canonical[:len(canonical)-1]...)
	b = append(append(append(b, prevMember...), l.Prev...), hashMember...)
	return append(append(append(b, l.Entry.Hash...), lineEnd...), '\n')
}

// ParseLine parses a line without its line break and checks its hash. A wrong hash is a
// *audit.Fault.
func ParseLine(raw []byte) (Line, error) {
	var l struct {
		bloom.Audit
		Prev string `json:"prev"`
	}
	if err := json.Unmarshal(raw, &l); err != nil {
		return Line{}, fmt.Errorf("it is not a JSON object of the audit: %w", err)
	}
	cut := len(raw) - tailLen
	if cut < 1 || !bytes.HasPrefix(raw[cut:], []byte(prevMember)) || len(l.Prev) != hashLen || len(l.Hash) != hashLen {
		return Line{}, &audit.Fault{Seq: l.Seq, Kind: audit.Changed, Detail: "the line does not end with prev and hash"}
	}
	canonical := append(bytes.Clone(raw[:cut]), '}')
	if audit.Hash(l.Prev, canonical) != l.Hash {
		return Line{}, &audit.Fault{Seq: l.Seq, Kind: audit.Changed, Detail: "its hash does not follow from the line"}
	}
	return Line{Entry: l.Audit, Prev: l.Prev}, nil
}
