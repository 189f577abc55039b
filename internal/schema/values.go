package schema

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/bloom-runtime/bloom/internal/storable"
)

// NewID returns a UUIDv7 for the store's time in Unix milliseconds: ids follow the clock that
// decides expiry, not the machine's.
func NewID(ms int64) string {
	var id uuid.UUID
	_, _ = rand.Read(id[:]) // never fails
	for i := range 6 {
		id[i] = byte(ms >> (40 - 8*i))
	}
	id[6] = id[6]&0x0f | 0x70
	id[8] = id[8]&0x3f | 0x80
	return id.String()
}

// ListJSON encodes a list of clean strings as a JSON array, nil as "[]".
func ListJSON(l []string) string {
	if len(l) == 0 {
		return "[]"
	}
	clean := make([]string, len(l))
	for i, s := range l {
		clean[i] = storable.Text(s)
	}
	return string(storable.MustJSON(clean))
}

// ParseList decodes what ListJSON encoded. It never returns nil.
func ParseList(s string) []string {
	l := []string{}
	if s != "" && s != "[]" {
		_ = json.Unmarshal([]byte(s), &l)
	}
	return l
}

// LabelKey returns the key of a set of labels in the queue's index: "" for none, otherwise the
// SHA-256 of the distinct labels in byte order, joined by NUL, which no label contains. It is a
// hash because PostgreSQL bounds the length of an index entry. PostgreSQL's claim computes it, too.
func LabelKey(labels []string) string {
	if len(labels) == 0 {
		return ""
	}
	sorted := make([]string, len(labels))
	for i, l := range labels {
		sorted[i] = storable.Text(l)
	}
	slices.Sort(sorted)
	sum := sha256.Sum256([]byte(strings.Join(slices.Compact(sorted), "\x00")))
	return hex.EncodeToString(sum[:])
}
