package schema

import (
	"crypto/rand"
	"encoding/json"
	"slices"

	"github.com/google/uuid"

	"github.com/bloom-runtime/bloom"
)

// NewID is a UUIDv7 of the store's own time, in Unix milliseconds: ids grow with
// the clock that decides expiry, not with that of the machine.
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

// ListJSON is a list of clean texts as a JSON array, "[]" also for nil.
func ListJSON(l []string) string {
	if len(l) == 0 {
		return "[]"
	}
	clean := make([]string, len(l))
	for i, s := range l {
		clean[i] = bloom.CleanText(s)
	}
	return string(bloom.MustJSON(clean))
}

// ParseList reads what ListJSON or LabelKey wrote. It is never nil.
func ParseList(s string) []string {
	l := []string{}
	if s != "" && s != "[]" {
		_ = json.Unmarshal([]byte(s), &l)
	}
	return l
}

// LabelKey is the canonical form of a set of labels, by which an index finds the
// tasks that ask for the same ones: "" for none.
func LabelKey(labels []string) string {
	if len(labels) == 0 {
		return ""
	}
	sorted := make([]string, len(labels))
	for i, l := range labels {
		sorted[i] = bloom.CleanText(l)
	}
	slices.Sort(sorted)
	return ListJSON(slices.Compact(sorted))
}
