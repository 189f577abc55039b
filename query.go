package bloom

import (
	"encoding/base64"
	"encoding/binary"
)

// Page bounds a list. Limit 0 means DefaultPageSize.
type Page struct {
	Limit  int
	Cursor Cursor
	// TextBytes is the longest prompt, list of context hints or content in a row, in bytes; longer
	// ones are truncated and marked. 0 means no limit.
	TextBytes int
}

// TextWindow returns how many characters of a long text a store must read to have TextBytes of them.
// It takes few distinct values, so that a database sees few distinct statements.
func (p Page) TextWindow() int {
	n := 1024
	for n <= p.TextBytes {
		n *= 2
	}
	return n
}

// Sizes of a page.
const (
	DefaultPageSize = 100
	MaxPageSize     = 1000
)

// Size returns the most entries that the page holds.
func (p Page) Size() int {
	if p.Limit <= 0 {
		return DefaultPageSize
	}
	return min(p.Limit, MaxPageSize)
}

// TaskQuery selects tasks; empty fields select all.
type TaskQuery struct {
	Status    TaskStatus
	ContextID string
	AgentSlug string
	WorkerID  string
	Error     ErrorClass // why the last attempt failed
	Labels    []string   // the task requires all of them
	Since     int64      // created at this time or later, Unix milliseconds; 0: at any time
	Until     int64      // created before this time; 0: at any time
	ShortID   string     // the last 8 characters of the id
	Text      string     // words of the prompt or the newest output, see SearchStore; or part of the id, at least 4 characters
	Page
}

// LeaseQuery selects leases.
type LeaseQuery struct {
	Status   LeaseStatus
	TaskID   string
	WorkerID string
	Page
}

// ArtifactQuery selects artifacts.
type ArtifactQuery struct {
	TaskID        string
	ShortID       string // the last 8 characters of the id
	Type          string
	WithTask      bool // with ContextID and Prompt
	PendingUpload bool // only those with CompleteRequest.PendingUpload that were not moved since
	Page
}

// AuditQuery selects audit entries.
type AuditQuery struct {
	EntityID string
	Action   string
	Page
}

// Cursor is a position in a list from newest to oldest: the entries numbered below Before follow.
// The zero Cursor is the start of the list.
type Cursor struct{ Before int64 }

// String returns the cursor as it appears in a URL; "" for the zero Cursor.
func (c Cursor) String() string {
	if c.Before == 0 {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(binary.AppendUvarint(nil, uint64(c.Before)))
}

// ParseCursor parses what String returned. Anything else is an invalid request.
func ParseCursor(s string) (Cursor, error) {
	if s == "" {
		return Cursor{}, nil
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(s)
	if err == nil {
		if n, size := binary.Uvarint(raw); size == len(raw) && int64(n) > 0 {
			if c := (Cursor{Before: int64(n)}); c.String() == s {
				return c, nil
			}
		}
	}
	return Cursor{}, Invalid("The cursor is invalid", FieldError{Field: "cursor", Message: "must come from the Link header of a list"})
}
