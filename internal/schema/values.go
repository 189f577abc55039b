package schema

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"

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

// ParseList reads what ListJSON wrote. It is never nil.
func ParseList(s string) []string {
	l := []string{}
	if s != "" && s != "[]" {
		_ = json.Unmarshal([]byte(s), &l)
	}
	return l
}

// LabelKey identifies a set of labels in the queue's index: "" for none, else the
// SHA-256 of the distinct labels in the order of their bytes, joined by NUL, which
// no label contains. It is a hash because PostgreSQL bounds the length of an index
// entry; the same statement is in both stores' migrations and PostgreSQL's claim.
func LabelKey(labels []string) string {
	if len(labels) == 0 {
		return ""
	}
	sorted := make([]string, len(labels))
	for i, l := range labels {
		sorted[i] = bloom.CleanText(l)
	}
	slices.Sort(sorted)
	sum := sha256.Sum256([]byte(strings.Join(slices.Compact(sorted), "\x00")))
	return hex.EncodeToString(sum[:])
}

// IsID reports whether s is a UUID as this system writes them. Any other name
// belongs to nothing.
func IsID(s string) bool {
	if len(s) != 36 {
		return false
	}
	for i := range len(s) {
		c := s[i]
		switch i {
		case 8, 13, 18, 23:
			if c != '-' {
				return false
			}
		default:
			if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
				return false
			}
		}
	}
	return true
}
